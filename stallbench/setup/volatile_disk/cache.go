package main

import (
	"sync"
	"syscall"
	"time"
)

// cache has the unsynced contents of all files, by inode number.
type cache struct {
	mu    sync.Mutex
	files map[uint64]*contents
}

// lost is what a power failure drops.
type lost struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func newCache() *cache {
	return &cache{files: map[uint64]*contents{}}
}

// of returns the contents of a file. They are never forgotten: unsynced contents keep their file open, so that its number is not used again.
func (c *cache) of(inode uint64) *contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.files[inode]
	if !ok {
		found = &contents{fd: -1}
		c.files[inode] = found
	}
	return found
}

func (c *cache) all() []*contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*contents, 0, len(c.files))
	for _, file := range c.files {
		all = append(all, file)
	}
	return all
}

func (c *cache) writeBackOlderThan(age time.Duration) {
	for _, file := range c.all() {
		file.mu.Lock()
		if file.fd >= 0 && time.Since(file.since) >= age {
			// What cannot be written now, because the folder's disk is full for example, is tried again a second later.
			if fd, err := file.writeBack(); err == nil {
				syscall.Close(fd)
			}
		}
		file.mu.Unlock()
	}
}

// freeze stops all reads and writes for good and counts what is unsynced.
func (c *cache) freeze() lost {
	var dropped lost
	for _, file := range c.all() {
		file.mu.Lock()
		if file.fd >= 0 {
			dropped.Files++
			dropped.Bytes += int64(len(file.pages)) * pageSize
		}
	}
	return dropped
}
