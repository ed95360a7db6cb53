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
)

// fault is a job fault, as stallbench.injection.job_faults writes it.
type fault struct {
	On           string
	Kills, Fails bool
	TakesS       *float64 `json:"takes_s"`
	Mark         *string
	Share        float64
	At, Crash    *string
	EveryNth     *int `json:"every_nth"`
	Seed         int64
	name         string
}

// meetFaults carries out the job faults that affect a job; returns the seconds that its work takes.
func (r *Recorder) meetFaults(job Job) (takesS float64, err error) {
	takesS = -1
	for _, fault := range r.active() {
		name := fault.name
		if !r.meets(job.Payload, fault) {
			continue
		}
		if _, isSent := r.sent.Swap(name, true); !isSent {
			Send(map[string]any{"met": name})
		}
		if fault.Kills {
			r.crash(name, "kill", job.N)
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

// active returns the job faults that are active for this worker, in the order of their names.
func (r *Recorder) active() (found []fault) {
	names, _ := fs.Glob(os.DirFS(r.JobFaults), "*.json")
	for _, name := range names {
		var f fault
		content, ended := os.ReadFile(path.Join(r.JobFaults, name))
		if ended != nil || json.Unmarshal(content, &f) != nil {
			continue
		}
		if f.On == "workers" || strings.HasPrefix(r.Name+"-", f.On+"-") {
			f.name = strings.TrimSuffix(name, ".json")
			found = append(found, f)
		}
	}
	return found
}

// meets says whether a job fault affects a job, by its mark and its share.
func (r *Recorder) meets(payload string, f fault) bool {
	if !f.Kills && !f.Fails && f.TakesS == nil {
		return false
	}
	var job struct{ Mark *string }
	if f.Mark != nil && (json.Unmarshal([]byte(payload), &job) != nil || job.Mark == nil || *job.Mark != *f.Mark) {
		return false
	}
	return f.Share >= 1 || draw(fmt.Sprint(r.Seed, " ", f.name), r.count(f.name), f.Share)
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
