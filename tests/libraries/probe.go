// An adapter whose library executes each job that it is handed at once: it shows the contract module alone.
package main

import (
	"context"
	"net/http"
	"strings"

	contract "stallbench/contract"
)

func main() {
	recorder := contract.NewRecorder(contract.ReadDocument(nil))
	recorder.Ready()
	contract.ServeBatches(func(jobs []contract.Job) error {
		if jobs[0].Payload == "full" {
			return contract.JobsRefused("the queue is full")
		}
		if strings.HasPrefix(jobs[0].Payload, "http:") {
			if _, err := http.Get(jobs[0].Payload); err != nil {
				return err
			}
		}
		for _, job := range jobs {
			if err := recorder.Work(context.Background(), job, 1); err != nil {
				return err
			}
			recorder.Write("completed", job.N, 1, "")
		}
		return nil
	})
}
