package main

import (
	"context"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or folder. Names and attributes are those of the folder below; contents and size come from the cache.
type node struct {
	fs.LoopbackNode
	cache *cache
}

// handle is an open file.
type handle struct {
	fd    int
	syncs bool // whether each write is a sync
}

var (
	_ fs.NodeOpener         = (*node)(nil)
	_ fs.NodeCreater        = (*node)(nil)
	_ fs.NodeLookuper       = (*node)(nil)
	_ fs.NodeLinker         = (*node)(nil)
	_ fs.NodeReader         = (*node)(nil)
	_ fs.NodeWriter         = (*node)(nil)
	_ fs.NodeAllocater      = (*node)(nil)
	_ fs.NodeFsyncer        = (*node)(nil)
	_ fs.NodeReleaser       = (*node)(nil)
	_ fs.NodeGetattrer      = (*node)(nil)
	_ fs.NodeSetattrer      = (*node)(nil)
	_ fs.NodeMknoder        = (*node)(nil)
	_ fs.NodeCopyFileRanger = (*node)(nil)
)

func (n *node) contents() *contents {
	return n.cache.of(n.StableAttr().Ino)
}

func (n *node) place() string {
	return filepath.Join(n.RootData.Path, n.Path(n.RootData.RootNode.EmbeddedInode()))
}

func open(path string, flags uint32) (*handle, error) {
	access := syscall.O_RDONLY
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		access = syscall.O_RDWR // a page that is written in part is read first
	}
	fd, err := syscall.Open(path, access|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &handle{fd: fd, syncs: flags&syscall.O_DSYNC != 0}, nil // O_SYNC contains O_DSYNC
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	opened, err := open(n.place(), flags)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	if flags&syscall.O_TRUNC != 0 {
		if err := n.contents().resize(opened.fd, 0); err != nil {
			syscall.Close(opened.fd)
			return nil, 0, fs.ToErrno(err)
		}
	}
	return opened, 0, 0
}

func (n *node) Create(ctx context.Context, name string, flags uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, created, _, errno := n.LoopbackNode.Create(ctx, name, syscall.O_RDWR|flags&syscall.O_EXCL, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	if file, ok := created.(fs.FileReleaser); ok {
		file.Release(ctx)
	}
	opened, err := open(filepath.Join(n.place(), name), flags|syscall.O_RDWR)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	n.correct(&out.Attr)
	return child, opened, 0, 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Lookup(ctx, name, out)
	if errno == 0 {
		n.correct(&out.Attr)
	}
	return child, errno
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Link(ctx, target, name, out)
	if errno == 0 {
		n.correct(&out.Attr)
	}
	return child, errno
}

// correct sets the size of a file with unsynced contents.
func (n *node) correct(attr *fuse.Attr) {
	file := n.cache.of(attr.Ino)
	file.mu.Lock()
	defer file.mu.Unlock()
	if file.fd >= 0 {
		attr.Size = uint64(file.size)
		attr.Blocks = (attr.Size + 511) / 512
	}
}

func (n *node) Read(_ context.Context, f fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	length, err := n.contents().read(f.(*handle).fd, into, offset)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(into[:length]), 0
}

func (n *node) Write(_ context.Context, f fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	opened := f.(*handle)
	if err := n.contents().write(opened.fd, data, offset); err != nil {
		return 0, fs.ToErrno(err)
	}
	if opened.syncs {
		if err := n.contents().sync(); err != nil {
			return 0, fs.ToErrno(err)
		}
	}
	return uint32(len(data)), 0
}

func (n *node) Allocate(_ context.Context, f fs.FileHandle, offset uint64, size uint64, mode uint32) syscall.Errno {
	if mode != 0 {
		return syscall.ENOTSUP
	}
	return fs.ToErrno(n.contents().extend(f.(*handle).fd, int64(offset+size)))
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return fs.ToErrno(n.contents().sync())
}

func (n *node) Release(_ context.Context, f fs.FileHandle) syscall.Errno {
	if opened, ok := f.(*handle); ok {
		return fs.ToErrno(syscall.Close(opened.fd))
	}
	return 0
}

// CopyFileRange lets the kernel copy by reads and writes, which see unsynced contents.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOTSUP
}

func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if opened, ok := f.(*handle); ok { // its name may be gone
		var st syscall.Stat_t
		if err := syscall.Fstat(opened.fd, &st); err != nil {
			return fs.ToErrno(err)
		}
		out.FromStat(&st)
	} else if errno := n.LoopbackNode.Getattr(ctx, nil, out); errno != 0 {
		return errno
	}
	n.correct(&out.Attr)
	return 0
}

func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if err := n.resize(f, int64(size)); err != nil {
			return fs.ToErrno(err)
		}
	}
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) == 0 && in.Valid&fuse.FATTR_SIZE != 0 {
		return n.Getattr(ctx, f, out)
	}
	in.Valid &^= fuse.FATTR_SIZE
	if errno := n.LoopbackNode.Setattr(ctx, nil, in, out); errno != 0 {
		return errno
	}
	n.correct(&out.Attr)
	return 0
}

func (n *node) resize(f fs.FileHandle, size int64) error {
	if opened, ok := f.(*handle); ok {
		return n.contents().resize(opened.fd, size)
	}
	opened, err := open(n.place(), syscall.O_RDWR)
	if err != nil {
		return err
	}
	defer syscall.Close(opened.fd)
	return n.contents().resize(opened.fd, size)
}
