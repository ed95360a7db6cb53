package main

import (
	"slices"
	"sync"
	"syscall"
	"time"
)

const pageSize = 4096

// contents are those of one file: the file in the folder, and above it the pages that were written since the last sync.
type contents struct {
	mu    sync.Mutex
	fd    int // the file in the folder, open for reading and writing; -1 if nothing is unsynced
	pages map[int64][]byte
	size  int64
	kept  int64 // from here on, the file in the folder was cut off since the last sync
	since time.Time
}

// begin notes that something is unsynced from now on; fd is a descriptor of the file, open for reading and writing.
func (c *contents) begin(fd int) error {
	if c.fd >= 0 {
		return nil
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	own, err := syscall.Dup(fd)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(own)
	c.fd, c.pages, c.size, c.kept, c.since = own, map[int64][]byte{}, st.Size, st.Size, time.Now()
	return nil
}

func (c *contents) read(fd int, into []byte, offset int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return readFull(fd, into, offset)
	}
	into = into[:max(0, min(int64(len(into)), c.size-offset))]
	clear(into)
	if err := c.readKept(fd, into, offset); err != nil {
		return 0, err
	}
	for done := int64(0); done < int64(len(into)); {
		number, from := (offset+done)/pageSize, (offset+done)%pageSize
		length := min(pageSize-from, int64(len(into))-done)
		if page, ok := c.pages[number]; ok {
			copy(into[done:done+length], page[from:])
		}
		done += length
	}
	return len(into), nil
}

// readKept reads from the file in the folder what was not cut off.
func (c *contents) readKept(fd int, into []byte, offset int64) error {
	length := min(int64(len(into)), c.kept-offset)
	if length <= 0 {
		return nil
	}
	_, err := readFull(fd, into[:length], offset)
	return err
}

func (c *contents) write(fd int, data []byte, offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(fd); err != nil {
		return err
	}
	for done := int64(0); done < int64(len(data)); {
		number, from := (offset+done)/pageSize, (offset+done)%pageSize
		length := min(pageSize-from, int64(len(data))-done)
		page, ok := c.pages[number]
		if !ok {
			page = make([]byte, pageSize)
			if length < pageSize {
				if err := c.readKept(c.fd, page, number*pageSize); err != nil {
					return err
				}
			}
			c.pages[number] = page
		}
		copy(page[from:], data[done:done+length])
		done += length
		c.size = max(c.size, offset+done)
	}
	return nil
}

func (c *contents) resize(fd int, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(fd); err != nil {
		return err
	}
	for number, page := range c.pages {
		if number*pageSize >= size {
			delete(c.pages, number)
		} else if size < (number+1)*pageSize {
			clear(page[size-number*pageSize:])
		}
	}
	c.size, c.kept = size, min(c.kept, size)
	return nil
}

// extend makes the file at least so long.
func (c *contents) extend(fd int, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(fd); err != nil {
		return err
	}
	c.size = max(c.size, size)
	return nil
}

// sync writes what is unsynced to the folder, and waits for the folder's disk, so that a sync takes as long as it does without this program.
func (c *contents) sync() error {
	c.mu.Lock()
	if c.fd < 0 {
		c.mu.Unlock()
		return nil
	}
	fd, err := c.writeBack()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Fdatasync(fd)
}

// writeBack writes what is unsynced to the folder, and returns the descriptor, which the caller closes.
func (c *contents) writeBack() (int, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(c.fd, &st); err != nil {
		return -1, err
	}
	if st.Size > c.kept {
		if err := syscall.Ftruncate(c.fd, c.kept); err != nil {
			return -1, err
		}
	}
	numbers := make([]int64, 0, len(c.pages))
	for number := range c.pages {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		start := number * pageSize
		if err := writeFull(c.fd, c.pages[number][:min(pageSize, c.size-start)], start); err != nil {
			return -1, err
		}
	}
	if err := syscall.Ftruncate(c.fd, c.size); err != nil {
		return -1, err
	}
	fd := c.fd
	c.fd, c.pages = -1, nil
	return fd, nil
}

func readFull(fd int, into []byte, offset int64) (int, error) {
	done := 0
	for done < len(into) {
		n, err := syscall.Pread(fd, into[done:], offset+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

func writeFull(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := syscall.Pwrite(fd, data, offset)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}
