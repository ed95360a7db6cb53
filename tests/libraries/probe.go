// An adapter whose library executes each job that it is handed at once: it shows the contract module alone.
package main

import (
	"context"

	contract "stallbench/contract"
)

func main() {
	recorder := contract.NewRecorder(contract.ReadDocument(nil))
	recorder.Ready()
	contract.ServeBatches(func(jobs []contract.Job) error {
		if jobs[0].Payload == "full" {
			return contract.JobsRefused("the queue is full")
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
