// A file system that loses what was not synced when the power fails, as a disk below the page cache does.
//
// It is mounted over the folder that it stores its files in, and ends without a trace when its process ends. Contents and sizes of
// files stay in the memory of this process until fsync, fdatasync, or a write to a file that was opened with O_SYNC or O_DSYNC, or
// until they are as old as the kernel lets its dirty pages become (-write-back-after). Names (create, rename, remove), owners and
// modes reach the folder at once, as if a journal had been committed after each.
//
// It writes {"ready": {}} to its standard output when it is mounted. SIGUSR1 is the power failure: it drops what is unsynced, writes
// {"dropped": {"files": n, "bytes": n}}, and ends.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	attributesFor = time.Minute // nobody else changes the folder
	maxWriteBytes = 256 << 10
)

func main() {
	writeBackAfter := flag.Duration("write-back-after", 30*time.Second, "age at which unsynced data are written")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: volatile_disk [-write-back-after DURATION] FOLDER")
		os.Exit(2)
	}
	// It has to outlive the server that uses it, which is asked to end by these signals.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	powerFailure := make(chan os.Signal, 1)
	signal.Notify(powerFailure, syscall.SIGUSR1)
	data := newCache()
	if err := mount(flag.Arg(0), data); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot be mounted: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
	report("ready", struct{}{})
	tick := time.NewTicker(time.Second)
	for {
		select {
		case <-tick.C:
			data.writeBackOlderThan(*writeBackAfter)
		case <-powerFailure:
			report("dropped", data.freeze())
			os.Exit(0)
		}
	}
}

// mount shows folder through the file system. Its own files are reached through the working directory, which the mount does not cover.
func mount(folder string, data *cache) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	syscall.Umask(0) // the kernel has applied that of the caller
	var st syscall.Stat_t
	if err := syscall.Stat(".", &st); err != nil {
		return err
	}
	newNode := func(root *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: root}, cache: data}
	}
	root := &fs.LoopbackRoot{Path: ".", Dev: uint64(st.Dev), NewNode: newNode}
	root.RootNode = newNode(root, nil, "", &st)
	timeout := attributesFor
	_, err := fs.Mount(folder, root.RootNode, &fs.Options{
		AttrTimeout:     &timeout,
		EntryTimeout:    &timeout,
		NullPermissions: true,
		MountOptions: fuse.MountOptions{
			AllowOther:        true,
			DirectMountStrict: true,
			FsName:            folder,
			MaxWrite:          maxWriteBytes,
			Name:              "volatile_disk",
			Options:           []string{"default_permissions"},
		},
	})
	return err
}

func report(key string, value any) {
	line, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
