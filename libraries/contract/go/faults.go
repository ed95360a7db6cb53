package contract

import (
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
func (r *Recorder) meetFaults(payload string) (takesS float64, err error) {
	takesS = -1
	names, _ := fs.Glob(os.DirFS(r.JobFaults), "*.json")
	for _, name := range names {
		var fault fault
		content, ended := os.ReadFile(path.Join(r.JobFaults, name))
		if ended != nil || json.Unmarshal(content, &fault) != nil || !r.meets(payload, fault) {
			continue
		}
		name = strings.TrimSuffix(name, ".json")
		if _, isTold := r.told.Swap(name, true); !isTold {
			Tell(map[string]any{"met": name})
		}
		if fault.Kills {
			r.kill(name)
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
func (r *Recorder) meets(payload string, f fault) bool {
	if !f.Kills && !f.Fails && f.TakesS == nil || f.On != "workers" && !strings.HasPrefix(r.Name+"-", f.On+"-") {
		return false
	}
	var job struct{ Mark *string }
	if f.Mark != nil && (json.Unmarshal([]byte(payload), &job) != nil || job.Mark == nil || *job.Mark != *f.Mark) {
		return false
	}
	r.draw.Lock()
	defer r.draw.Unlock()
	return f.Share >= 1 || r.random.Float64() < f.Share
}

// kill ends this process at once, as a crash does, if the fault has not ended meanwhile.
func (r *Recorder) kill(name string) {
	announcement := path.Join(r.JobFaults, name+"."+r.Name+".killed")
	Must(0, os.WriteFile(announcement, nil, 0o644))
	if _, ended := os.Stat(path.Join(r.JobFaults, name+".json")); ended == nil {
		Must(0, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	os.Remove(announcement)
}
