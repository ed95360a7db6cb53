//go:build !earlier_0.11.4

// What before_0_12.go does in another way.
package main

import (
	"context"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
	contract "stallbench/contract"
)

func newMigrator[TTx any](driver riverdriver.Driver[TTx]) *rivermigrate.Migrator[TTx] {
	return contract.Must(rivermigrate.New(driver, nil))
}

// insert inserts a batch. A unique job is alone in its batch; isRefused: it was there already.
func insert[TTx any](ctx context.Context, client *river.Client[TTx], jobs []river.InsertManyParams) (isRefused bool, err error) {
	results, err := client.InsertMany(ctx, jobs)
	return err == nil && results[0].UniqueSkippedAsDuplicate, err
}
