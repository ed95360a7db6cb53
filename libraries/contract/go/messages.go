// Package contract is stallbench's contract with an adapter in Go: reads the document, records jobs, carries out job faults, answers batches.
// Standard library only. docs/add-a-library.md describes the contract.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

var input = json.NewDecoder(os.Stdin)

// Document is the first line of standard input. QueueOptions are the library's own; Upgraded: the worker runs the version of the migration.
type Document struct {
	Name     string
	Endpoint struct {
		Engine, Host, User, Password, Database string
		Port                                   int
		PreparedStatements                     bool `json:"prepared_statements"`
	}
	QueueOptions json.RawMessage `json:"queue_options"`
	Events       string
	WorkS        float64 `json:"work_s"`
	JobFaults    string  `json:"job_faults"`
	WaitForGo    bool    `json:"wait_for_go"`
	Upgraded     bool
	Seed         uint64
}

// Job has the arguments of a job, which the bench makes. Only a unique job has a key, and only a job that is not in the default queue has a queue.
type Job struct {
	N       int64  `json:"n"`
	Sum     uint32 `json:"sum"`
	Payload string `json:"payload"`
	Key     string `json:"key,omitempty"`
	Queue   string `json:"queue,omitempty"`
}

// ReadDocument reads the document, and the library's options into options. The program of an earlier version goes on instead of this one, if the
// options ask for one.
func ReadDocument(options any) (document Document) {
	line := readLine()
	Must(0, json.Unmarshal(line, &document))
	goOnAsEarlier(document, line)
	if options != nil {
		Must(0, json.Unmarshal(document.QueueOptions, options))
	}
	return document
}

// DSN returns the address of the database as a URL.
func (d Document) DSN() string {
	e := d.Endpoint
	address := url.URL{Scheme: "postgresql", User: url.UserPassword(e.User, e.Password), Host: fmt.Sprintf("%s:%d", e.Host, e.Port), Path: e.Database}
	return address.String()
}

// Must returns value; if there is an error, it prints its message and ends the process.
func Must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// Send sends the bench a message: one JSON object on one line of standard output.
func Send(message map[string]any) {
	Must(0, json.NewEncoder(os.Stdout).Encode(message))
}

// JobsRefused says why the queue takes none of the batch's jobs, for example because it is full.
type JobsRefused string

func (reason JobsRefused) Error() string { return string(reason) }

// ServeBatches calls enqueue with the arguments of each batch that the bench sends, and answers ok, refused, or the error's code and message.
func ServeBatches(enqueue func([]Job) error) {
	Send(map[string]any{"ready": struct{}{}})
	for input.More() {
		var batch struct{ Jobs []Job }
		Must(0, input.Decode(&batch))
		Send(answerOf(enqueue(batch.Jobs)))
	}
}

// answerOf returns the answer to a batch that was enqueued, or that failed with an error.
func answerOf(err error) map[string]any {
	var refusal JobsRefused
	switch {
	case err == nil:
		return map[string]any{"ok": true}
	case errors.As(err, &refusal):
		return map[string]any{"refused": refusal.Error()}
	default:
		return map[string]any{"error": codeOf(err), "message": strings.Join(strings.Fields(err.Error()), " ")}
	}
}
