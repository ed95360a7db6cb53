package main

import (
	"context"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"stallbench/contract"
)

const periodicKind = "periodic"

// periodicArgs says how many seconds are between two jobs.
type periodicArgs struct{ Every int }

func (periodicArgs) Kind() string { return periodicKind }

type periodicWorker struct {
	river.WorkerDefaults[periodicArgs]
	recorder *contract.Recorder
}

// Work records that the job is executed. The leader has set when it is due, see internal/maintenance/periodic_job_enqueuer.go.
func (w *periodicWorker) Work(_ context.Context, job *river.Job[periodicArgs]) error {
	w.recorder.Write("fired", job.ScheduledAt.Unix()/int64(job.Args.Every), job.Attempt, strconv.FormatInt(job.ID, 10))
	return nil
}

// schedule is due at the multiples of a duration, as a cron expression is, whichever client leads.
type schedule time.Duration

func (every schedule) Next(current time.Time) time.Time {
	return current.Truncate(time.Duration(every)).Add(time.Duration(every))
}

// periodicJobs lets the leader insert a job every so many seconds, and this client execute it; none if that is 0.
func periodicJobs(every int, workers *river.Workers, recorder *contract.Recorder) []*river.PeriodicJob {
	if every == 0 {
		return nil
	}
	river.AddWorker(workers, &periodicWorker{recorder: recorder})
	construct := func() (river.JobArgs, *river.InsertOpts) { return periodicArgs{every}, nil }
	return []*river.PeriodicJob{river.NewPeriodicJob(schedule(seconds(float64(every))), construct, nil)}
}
