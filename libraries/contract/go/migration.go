package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"
)

// readByEarlier is the environment variable with the document of a program of an earlier version, which cannot read it again.
const readByEarlier = "STALLBENCH_DOCUMENT"

// readLine returns the first line of standard input, and leaves what follows to the program that goes on.
func readLine() (line []byte) {
	if document, isRead := os.LookupEnv(readByEarlier); isRead {
		return []byte(document)
	}
	next := make([]byte, 1)
	for {
		if count, _ := os.Stdin.Read(next); count == 0 || next[0] == '\n' {
			return line
		}
		line = append(line, next[0])
	}
}

// goOnAsEarlier lets the program of an earlier version take the place of this one, if the document asks for that version and it has a program: a
// program in Go contains one version of a module.
func goOnAsEarlier(document Document, line []byte) {
	var options struct {
		Version   any
		UpgradeTo any `json:"upgrade_to"`
	}
	if _, isEarlier := os.LookupEnv(readByEarlier); isEarlier || len(document.QueueOptions) == 0 {
		return
	}
	Must(0, json.Unmarshal(document.QueueOptions, &options))
	version := options.Version
	if document.Upgraded || slices.Contains(os.Args[1:], "migrate") {
		version = options.UpgradeTo
	}
	program := path.Join(os.Getenv("STALLBENCH_LIBRARY"), fmt.Sprintf("earlier-%v", version))
	if _, missing := os.Stat(program); missing == nil {
		environment := append(os.Environ(), readByEarlier+"="+string(line))
		Must(0, syscall.Exec(program, append([]string{program}, os.Args[1:]...), environment))
	}
}

// AnswerFor carries out a migration, and answers like a batch: ok, or the error's code and message, with exit code 1.
func AnswerFor(migrate func() error) {
	err := migrate()
	Send(answerOf(err))
	if err != nil {
		os.Exit(1)
	}
}
