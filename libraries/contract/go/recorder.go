package contract

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

// Recorder records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns.
type Recorder struct {
	Document
	log    *os.File
	goes   chan os.Signal
	sent   sync.Map
	counts map[string]int
	lock   sync.Mutex // of counts
}

// NewRecorder opens the event log that the document names.
func NewRecorder(document Document) *Recorder {
	log := Must(os.OpenFile(document.Events, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644))
	recorder := &Recorder{Document: document, log: log, goes: make(chan os.Signal, 1), counts: map[string]int{}}
	if document.WaitForGo {
		signal.Notify(recorder.goes, syscall.SIGUSR1, syscall.SIGTERM)
	}
	return recorder
}

// Ready says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together.
func (r *Recorder) Ready() {
	Send(map[string]any{"ready": struct{}{}})
	if r.WaitForGo && <-r.goes == syscall.SIGTERM {
		os.Exit(0)
	}
	signal.Stop(r.goes)
}

// Write appends an event of stallbench.records.events.
func (r *Recorder) Write(event string, job int64, attempt int, detail string) {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	text := strings.Join(strings.Fields(strings.ReplaceAll(detail, ",", ";")), " ")
	const line = "%d,%d,%s,%s,%d,%d,,,%s\n"
	Must(fmt.Fprintf(r.log, line, time.Now().UnixNano(), now.Nano(), r.Name, event, job, attempt, text))
	if event == "completed" {
		r.pass("after_completion_acknowledged", job)
	}
}

// Work executes a job: records that its handler starts, does its work, records the end.
func (r *Recorder) Work(ctx context.Context, job Job, attempt int) error {
	if crc32.ChecksumIEEE(fmt.Appendf(nil, "%d:%s", job.N, job.Payload)) != job.Sum {
		r.Write("error", job.N, attempt, "DamagedArguments in claim: they do not match their checksum")
		return fmt.Errorf("the arguments of job %d are damaged", job.N)
	}
	r.Write("claimed", job.N, attempt, "")
	r.pass("after_claim", job.N)
	takesS, err := r.meetFaults(job)
	if err == nil && r.crashesAt("during_work") {
		takesS /= 2
		err = pause(ctx, takesS)
		r.pass("during_work", job.N)
	}
	if err == nil {
		err = pause(ctx, takesS)
	}
	if err == nil {
		r.Write("worked", job.N, attempt, "")
		r.pass("before_completion", job.N)
	}
	return err
}

func pause(ctx context.Context, durationS float64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(durationS * float64(time.Second))):
		return nil
	}
}
