/* A library for LD_PRELOAD that lets file operations fail or wait at random, below one folder.
 *
 * DLRM_FAULTS="folder=/path seed=7 enospc=0.001 eio=0.001 short=0.1 intr=0.05 slow=0.01 full=0"
 * gives the probability of each fault of a call: ENOSPC (writes), EIO (reads, writes and syncs), a
 * short transfer, EINTR, and a wait of up to 20 ms. `full=1` lets every write fail with ENOSPC. `at=5` lets
 * the fifth call alone fail, with EIO, and makes a file that DLRM_FAULT_MARK names; calls of open() and
 * ftruncate() and relative paths count then. With `written=1` reads and what opens a file for reading do not
 * count. Calls on other folders are not touched. A short transfer or EINTR happens to plain reads and writes, for
 * which POSIX allows both. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static double enospc, eio, shorter, intr, slow, full, at, written;
static _Atomic uint64_t state, calls;

static double setting(const char* text, const char* name) {
  const char* at = text ? strstr(text, name) : NULL;
  return at ? atof(at + strlen(name)) : 0;
}

__attribute__((constructor)) static void read_settings(void) {
  const char* text = getenv("DLRM_FAULTS");
  if (!text) return;
  sscanf(text, "folder=%4095s", folder);
  enospc = setting(text, " enospc=");
  eio = setting(text, " eio=");
  shorter = setting(text, " short=");
  intr = setting(text, " intr=");
  slow = setting(text, " slow=");
  full = setting(text, " full=");
  at = setting(text, " at=");
  written = setting(text, " written=");
  atomic_store(&state, (uint64_t)setting(text, " seed=") * 1000003u + (uint64_t)getpid());
}

/* splitmix64 */
static double random_number(void) {
  uint64_t z = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int is_below(const char* path) {
  char here[PATH_MAX];
  if (!folder[0]) return 0;
  if (at > 0 && path[0] != '/') path = getcwd(here, sizeof here) ? here : "";
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int concerns(int fd) {
  char link[64], path[PATH_MAX];
  if (!folder[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return path[0] == '/' && is_below(path);  /* others are pipes and sockets */
}

enum { READS, WRITES, SYNCS };

/* An error number, or 0. */
static int fault(int kind) {
  const int writes = kind == WRITES;
  if (at > 0 && !(written > 0 && kind == READS) && atomic_fetch_add(&calls, 1) + 1 == (uint64_t)at) {
    const char* mark = getenv("DLRM_FAULT_MARK");
    if (mark) close((int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0666));
    return EIO;
  }
  if (slow > 0 && random_number() < slow) usleep((useconds_t)(random_number() * 20000));
  if (writes && (full > 0 || random_number() < enospc)) return ENOSPC;
  return random_number() < eio ? EIO : 0;
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(error) return errno = (error), -1
#define TRANSFER(kind, call) \
  if (concerns(fd)) { \
    const int error = fault(kind); \
    if (error) FAIL(error); \
    if (random_number() < intr) FAIL(EINTR); \
    if (count > 1 && random_number() < shorter) count = 1 + (size_t)(random_number() * (double)(count - 1)); \
  } \
  return call

ssize_t write(int fd, const void* data, size_t count) {
  REAL(write);
  TRANSFER(WRITES, real(fd, data, count));
}
ssize_t read(int fd, void* data, size_t count) {
  REAL(read);
  TRANSFER(READS, real(fd, data, count));
}
ssize_t pwrite(int fd, const void* data, size_t count, off_t at) {
  REAL(pwrite);
  TRANSFER(WRITES, real(fd, data, count, at));
}
ssize_t pwrite64(int fd, const void* data, size_t count, off64_t at) {
  REAL(pwrite64);
  TRANSFER(WRITES, real(fd, data, count, at));
}
ssize_t pread(int fd, void* data, size_t count, off_t at) {
  REAL(pread);
  TRANSFER(READS, real(fd, data, count, at));
}
ssize_t pread64(int fd, void* data, size_t count, off64_t at) {
  REAL(pread64);
  TRANSFER(READS, real(fd, data, count, at));
}

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  const int error = at > 0 && is_below(path) ? fault(flags & (O_WRONLY | O_RDWR) ? WRITES : READS) : 0;
  if (error) FAIL(error);
  return real(path, flags, mode);
}
int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  const int error = at > 0 && concerns(fd) ? fault(WRITES) : 0;
  if (error) FAIL(error);
  return real(fd, size);
}
int fsync(int fd) {
  REAL(fsync);
  const int error = concerns(fd) ? fault(SYNCS) : 0;
  if (error) FAIL(error);
  return real(fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  const int error = concerns(fd) ? fault(SYNCS) : 0;
  if (error) FAIL(error);
  return real(fd);
}
int rename(const char* from, const char* to) {
  REAL(rename);
  const int error = is_below(to) ? fault(WRITES) : 0;
  if (error) FAIL(error);
  return real(from, to);
}
int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  const int error = is_below(path) ? fault(WRITES) : 0;
  if (error) FAIL(error);
  return real(path, mode);
}
