package contract

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
)

var codesOfSQLite = map[int]string{5: "SQLITE_BUSY", 6: "SQLITE_LOCKED", 10: "SQLITE_IOERR", 13: "SQLITE_FULL"}

// codeOf returns the SQLSTATE, or SQLite's name of the error. Without one: the type of the network's error that the library has wrapped, or else the
// type of the innermost error that has one of its own. An error of a URL is that of a web service that the application calls, whatever it wraps.
func codeOf(err error) string {
	var ofServer interface{ SQLState() string }
	var ofSQLite interface{ Code() int }
	var ofNetwork *net.OpError
	var ofWeb *url.Error
	if errors.As(err, &ofServer) {
		return ofServer.SQLState()
	}
	if errors.As(err, &ofSQLite) {
		if name, known := codesOfSQLite[ofSQLite.Code()&0xff]; known { // the higher bits distinguish cases of the error
			return name
		}
	}
	if errors.As(err, &ofWeb) {
		return fmt.Sprintf("%T", ofWeb)
	}
	if errors.As(err, &ofNetwork) {
		return fmt.Sprintf("%T", ofNetwork)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "08006" // the server has closed the connection
	}
	name := fmt.Sprintf("%T", err)
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		if own := fmt.Sprintf("%T", inner); !strings.HasPrefix(own, "*errors.") && !strings.HasPrefix(own, "*fmt.") {
			name = own
		}
	}
	return name
}
