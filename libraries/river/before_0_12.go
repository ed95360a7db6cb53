//go:build earlier_0.11.4

// What since_0_12.go and sqlite.go do in another way.
package main

import (
	"context"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	contract "stallbench/contract"
)

func newMigrator[TTx any](driver riverdriver.Driver[TTx]) *rivermigrate.Migrator[TTx] {
	return rivermigrate.New(driver, nil)
}

// insert inserts a batch, with COPY. A unique job is an error of the library, which compares all arguments, and has no key among them.
func insert[TTx any](ctx context.Context, client *river.Client[TTx], jobs []river.InsertManyParams) (isRefused bool, err error) {
	_, err = client.InsertMany(ctx, jobs)
	return false, err
}

func openFile(context.Context, contract.Document) *riverpgxv5.Driver {
	return contract.Must[*riverpgxv5.Driver](nil, errors.New("this version of River has no driver for SQLite"))
}
