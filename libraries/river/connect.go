// The driver for PostgreSQL: pgx.
package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	contract "stallbench/contract"
)

func connect(ctx context.Context, document contract.Document) *riverpgxv5.Driver {
	config := contract.Must(pgxpool.ParseConfig(document.DSN()))
	config.ConnConfig.RuntimeParams["application_name"] = "stallbench:" + document.Name
	if !document.Endpoint.PreparedStatements {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	pool := contract.Must(pgxpool.NewWithConfig(ctx, config))
	contract.Must(0, pool.Ping(ctx))
	return riverpgxv5.New(pool)
}
