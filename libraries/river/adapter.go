// River, as its documentation recommends: jobs are inserted in batches, and a client with a pool of connections listens and polls.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
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

func connect(ctx context.Context, document contract.Document) *pgxpool.Pool {
	config := contract.Must(pgxpool.ParseConfig(document.DSN()))
	config.ConnConfig.RuntimeParams["application_name"] = "stallbench:" + document.Name
	if !document.Endpoint.PreparedStatements {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	pool := contract.Must(pgxpool.NewWithConfig(ctx, config))
	contract.Must(0, pool.Ping(ctx))
	return pool
}

func makeClient(pool *pgxpool.Pool, config *river.Config) *river.Client[pgx.Tx] {
	// By default River logs to standard output, which the messages to the bench use.
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return contract.Must(river.NewClient(riverpgxv5.New(pool), config))
}

func install(ctx context.Context, document contract.Document) {
	migrator := contract.Must(rivermigrate.New(riverpgxv5.New(connect(ctx, document)), nil))
	contract.Must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
}

func produce(ctx context.Context, document contract.Document) {
	client := makeClient(connect(ctx, document), &river.Config{})
	contract.ServeBatches(func(jobs []contract.Job) error {
		inserted := make([]river.InsertManyParams, len(jobs))
		for i, job := range jobs {
			inserted[i].Args = jobArgs{job, job.Key}
			inserted[i].InsertOpts = &river.InsertOpts{Queue: job.Queue, UniqueOpts: river.UniqueOpts{ByArgs: job.Key != ""}}
		}
		results, err := client.InsertMany(ctx, inserted)
		if err == nil && results[0].UniqueSkippedAsDuplicate { // a job with a key is alone in its batch
			return contract.JobsRefused("there is a job with the key " + jobs[0].Key)
		}
		return err
	})
}

func work(ctx context.Context, document contract.Document, options options) {
	recorder := contract.NewRecorder(document)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{recorder: recorder})
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: options.Concurrency}}
	if options.SecondQueue {
		queues[secondQueue] = river.QueueConfig{MaxWorkers: options.Concurrency}
	}
	client := makeClient(connect(ctx, document), &river.Config{
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

func main() {
	var options options
	document, ctx := contract.ReadDocument(&options), context.Background()
	switch os.Args[1] {
	case "install":
		install(ctx, document)
	case "produce":
		produce(ctx, document)
	case "work":
		work(ctx, document, options)
	}
}
