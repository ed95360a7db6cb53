package contract

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// fault is a job fault, as stallbench.injection.job_faults writes it.
type fault struct {
	On           string
	Kills, Fails bool
	TakesS       *float64 `json:"takes_s"`
	Mark         *string
	Share        float64
}

// meetFaults carries out the job faults that affect a job; returns the seconds that its work takes.
func (r *Recorder) meetFaults(job Job) (takesS float64, err error) {
	takesS = -1
	names, _ := fs.Glob(os.DirFS(r.JobFaults), "*.json")
	for _, name := range names {
		var fault fault
		content, ended := os.ReadFile(path.Join(r.JobFaults, name))
		name = strings.TrimSuffix(name, ".json")
		if ended != nil || json.Unmarshal(content, &fault) != nil || !r.meets(job.Payload, name, fault) {
			continue
		}
		if _, isTold := r.told.Swap(name, true); !isTold {
			Tell(map[string]any{"met": name})
		}
		if fault.Kills {
			r.kill(name, job.N)
		}
		if fault.Fails {
			err = errors.Join(err, fmt.Errorf("a dependency of the job is unavailable (%s)", name))
		}
		if fault.TakesS != nil {
			takesS = max(takesS, *fault.TakesS)
		}
	}
	if takesS < 0 {
		takesS = r.WorkS
	}
	return takesS, err
}

// meets says whether a job fault affects a job of this worker, by its mark and its share.
func (r *Recorder) meets(payload, name string, f fault) bool {
	if !f.Kills && !f.Fails && f.TakesS == nil || f.On != "workers" && !strings.HasPrefix(r.Name+"-", f.On+"-") {
		return false
	}
	var job struct{ Mark *string }
	if f.Mark != nil && (json.Unmarshal([]byte(payload), &job) != nil || job.Mark == nil || *job.Mark != *f.Mark) {
		return false
	}
	return f.Share >= 1 || draw(fmt.Sprint(r.Seed, " ", name), r.count(name), f.Share)
}

// count returns how often it was called for a job fault.
func (r *Recorder) count(name string) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.counts[name]++
	return r.counts[name]
}

// draw says whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256.
func draw(seed string, nth int, share float64) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", seed, nth))
	return float64(binary.BigEndian.Uint32(sum[:])) < share*(1<<32)
}

// kill ends this process at once, as a crash does, if the fault has not ended meanwhile.
func (r *Recorder) kill(name string, number int64) {
	announcement := path.Join(r.JobFaults, name+"."+r.Name+".killed")
	Must(0, os.WriteFile(announcement, fmt.Append(nil, number), 0o644))
	if _, ended := os.Stat(path.Join(r.JobFaults, name+".json")); ended == nil {
		Must(0, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	os.Remove(announcement)
}
