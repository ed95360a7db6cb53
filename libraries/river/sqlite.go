//go:build !earlier_0.11.4

// The driver for SQLite: database/sql with modernc.org/sqlite.
package main

import (
	"context"
	"database/sql"
	"net/url"

	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite"
	contract "stallbench/contract"
)

// openFile opens the file with one connection, as the driver's documentation recommends. Other processes write to the file too, so a statement
// waits for their transactions; the driver for SQLite does not wait by itself.
func openFile(ctx context.Context, document contract.Document) *riversqlite.Driver {
	settings := url.Values{"_pragma": {"busy_timeout(5000)"}}
	address := url.URL{Scheme: "file", OmitHost: true, Path: document.Endpoint.Database, RawQuery: settings.Encode()}
	pool := contract.Must(sql.Open("sqlite", address.String()))
	pool.SetMaxOpenConns(1)
	contract.Must(0, pool.PingContext(ctx))
	return riversqlite.New(pool)
}
