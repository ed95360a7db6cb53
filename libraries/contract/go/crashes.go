package contract

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"syscall"
)

var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "pause": syscall.SIGSTOP}
var announcements = map[string]string{"kill": "killed", "pause": "stopped"}

// pass is at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns.
func (r *Recorder) pass(point string, number int64) {
	for _, f := range r.active() {
		if f.At != nil && *f.At == point && r.isDue(f) {
			r.crash(f.name, *f.Crash, number)
		}
	}
}

// crashesAt says whether a crash at this point is active.
func (r *Recorder) crashesAt(point string) bool {
	for _, f := range r.active() {
		if f.At != nil && *f.At == point {
			return true
		}
	}
	return false
}

// isDue says whether this passage of a crash point crashes: every n-th, or drawn by share.
func (r *Recorder) isDue(f fault) bool {
	passage := r.count(f.name)
	if f.EveryNth != nil {
		return passage%*f.EveryNth == 0
	}
	return draw(fmt.Sprint(f.Seed, " ", r.Name), passage, f.Share)
}

// crash kills or stops this process at once, if the fault has not ended meanwhile.
func (r *Recorder) crash(name, what string, number int64) {
	announcement := path.Join(r.JobFaults, name+"."+r.Name+"."+announcements[what])
	Must(0, os.WriteFile(announcement, fmt.Append(nil, number), 0o644))
	if _, ended := os.Stat(path.Join(r.JobFaults, name+".json")); ended != nil {
		os.Remove(announcement)
		return
	}
	// To this thread: if another one got the signal, this one might go on for a moment.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.Syscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(signals[what]))
}
