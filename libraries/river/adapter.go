// River, as its documentation recommends: jobs are inserted in batches, and a client with a pool of connections listens and polls.
// TTx is the type of the driver's transactions.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
	contract "stallbench/contract"
)

// unreadEvents is more than River completes in one batch: it drops events that a full channel cannot take.
const unreadEvents = 100_000

const secondQueue = "noisy"

type options struct {
	Concurrency       int
	FetchCooldown     float64 `json:"fetch_cooldown"`
	FetchPollInterval float64 `json:"fetch_poll_interval"`
	RescueAfter       float64 `json:"rescue_after"`
	SecondQueue       bool    `json:"second_queue"`
	Periodic          int
}

type jobArgs struct {
	contract.Job
	UniqueKey string `json:"key,omitempty" river:"unique"`
}

func (jobArgs) Kind() string { return "stallbench" }

type worker struct {
	river.WorkerDefaults[jobArgs]
	recorder *contract.Recorder
}

func (w *worker) Work(ctx context.Context, job *river.Job[jobArgs]) error {
	return w.recorder.Work(ctx, job.Args.Job, job.Attempt)
}

func makeClient[TTx any](driver riverdriver.Driver[TTx], config *river.Config) *river.Client[TTx] {
	// By default River logs to standard output, which the messages to the bench use.
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return contract.Must(river.NewClient(driver, config))
}

func migrate[TTx any](ctx context.Context, driver riverdriver.Driver[TTx]) error {
	_, err := newMigrator(driver).Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func produce[TTx any](ctx context.Context, driver riverdriver.Driver[TTx]) {
	client := makeClient(driver, &river.Config{})
	contract.ServeBatches(func(jobs []contract.Job) error {
		inserted := make([]river.InsertManyParams, len(jobs))
		for i, job := range jobs {
			inserted[i].Args = jobArgs{job, job.Key}
			inserted[i].InsertOpts = &river.InsertOpts{Queue: job.Queue, UniqueOpts: river.UniqueOpts{ByArgs: job.Key != ""}}
		}
		isRefused, err := insert(ctx, client, inserted)
		if isRefused {
			return contract.JobsRefused("there is a job with the key " + jobs[0].Key)
		}
		return err
	})
}

func work[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], document contract.Document, options options) {
	recorder := contract.NewRecorder(document)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{recorder: recorder})
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: options.Concurrency}}
	if options.SecondQueue {
		queues[secondQueue] = river.QueueConfig{MaxWorkers: options.Concurrency}
	}
	client := makeClient(driver, &river.Config{
		FetchCooldown:        seconds(options.FetchCooldown),
		FetchPollInterval:    seconds(options.FetchPollInterval),
		RescueStuckJobsAfter: seconds(options.RescueAfter),
		Queues:               queues,
		PeriodicJobs:         periodicJobs(options.Periodic, workers, recorder),
		Workers:              workers,
	})
	events, _ := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: unreadEvents,
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed},
	})
	recorder.Ready()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	contract.Must(0, client.Start(ctx))
	go func() {
		<-asked
		contract.Must(0, client.Stop(ctx)) // waits for running jobs
	}()
	for event := range events { // until the client has stopped
		record(recorder, event)
	}
	<-client.Stopped()
}

func record(recorder *contract.Recorder, event *river.Event) {
	var args jobArgs
	contract.Must(0, json.Unmarshal(event.Job.EncodedArgs, &args))
	switch {
	case event.Job.Kind == periodicKind: // the bench has not numbered it
	case event.Kind == river.EventKindJobCompleted:
		recorder.Write("completed", args.N, event.Job.Attempt, "")
	default:
		recorder.Write("failed", args.N, event.Job.Attempt, event.Job.Errors[len(event.Job.Errors)-1].Error)
	}
}

func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second))
}

func carryOut[TTx any](ctx context.Context, verb string, driver riverdriver.Driver[TTx], document contract.Document, options options) {
	switch verb {
	case "install":
		contract.Must(0, migrate(ctx, driver))
	case "migrate":
		contract.AnswerFor(func() error { return migrate(ctx, driver) })
	case "produce":
		produce(ctx, driver)
	case "work":
		work(ctx, driver, document, options)
	}
}

func main() {
	var options options
	document, ctx := contract.ReadDocument(&options), context.Background()
	if document.Endpoint.Engine == "sqlite" {
		carryOut(ctx, os.Args[1], openFile(ctx, document), document, options)
	} else {
		carryOut(ctx, os.Args[1], connect(ctx, document), document, options)
	}
}
