package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
)

// inherited is the environment variable with the number of the open file that has the document, for a program of an earlier version: the line cannot
// be read again from standard input. The document has a password, which must not be in the environment itself.
const inherited = "STALLBENCH_DOCUMENT_FILE"

// readLine returns the first line of standard input, and leaves what follows to the program that goes on.
func readLine() (line []byte) {
	if number, isEarlier := os.LookupEnv(inherited); isEarlier {
		file := os.NewFile(uintptr(Must(strconv.Atoi(number))), "document")
		defer file.Close()
		return Must(io.ReadAll(file))
	}
	next := make([]byte, 1)
	for {
		if count, _ := os.Stdin.Read(next); count == 0 || next[0] == '\n' {
			return line
		}
		line = append(line, next[0])
	}
}

// leaveToNext returns the number of an open file that has the line, and that stays open in the program that takes the place of this one. A pipe holds
// 64 KiB, and a document has less than one.
func leaveToNext(line []byte) string {
	reader, writer, err := os.Pipe()
	Must(0, err)
	Must(writer.Write(line))
	Must(0, writer.Close())
	return strconv.Itoa(Must(syscall.Dup(int(reader.Fd()))))
}

// goOnAsEarlier lets the program of an earlier version take the place of this one, if the document asks for that version and it has a program: a
// program in Go contains one version of a module.
func goOnAsEarlier(document Document, line []byte) {
	var options struct {
		Version   any
		UpgradeTo any `json:"upgrade_to"`
	}
	if _, isEarlier := os.LookupEnv(inherited); isEarlier || len(document.QueueOptions) == 0 {
		return
	}
	Must(0, json.Unmarshal(document.QueueOptions, &options))
	version := options.Version
	if document.Upgraded || slices.Contains(os.Args[1:], "migrate") {
		version = options.UpgradeTo
	}
	program := path.Join(os.Getenv("STALLBENCH_LIBRARY"), fmt.Sprintf("earlier-%v", version))
	if _, missing := os.Stat(program); missing == nil {
		environment := append(os.Environ(), inherited+"="+leaveToNext(line))
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
