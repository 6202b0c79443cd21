/* A library for LD_PRELOAD that counts the calls that a program itself makes to functions of other libraries,
 * not those that libraries make. The file that DLRM_COUNTED_CALLS names gets three numbers of 8 bytes for each
 * function of FUNCTIONS, in its order: the calls of the main thread, those of other threads, and the sum of
 * one argument over both, such as bytes. It is mapped, so that it has the counts however the process ends.
 *
 * Link it with -Wl,-z,initfirst: other libraries call these functions while they are loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* X(function, register that holds the argument) */
#define FUNCTIONS(X) \
  X(_Znwm, rdi) X(GOMP_parallel, rdx) X(open, rdx) X(read, rdx) X(write, rdx) X(pread, rdx) X(pwrite, rdx) \
  X(fsync, rdx) X(fdatasync, rdx) X(sync_file_range, rdx) X(rename, rdx) X(unlink, rdx) X(fallocate, rcx) \
  X(posix_fallocate, rdx) X(ftruncate, rsi) X(posix_fadvise, rdx) X(copy_file_range, r8) X(mmap, rsi) \
  X(munmap, rsi) X(madvise, rsi) X(aligned_alloc, rsi) X(pthread_create, rdx) X(posix_spawn, rdx) \
  X(io_uring_submit_and_wait, rsi) X(H5Fopen, rsi) X(H5Fcreate, rsi) X(H5Fflush, rsi) X(H5Dopen2, rdx) \
  X(H5Dcreate2, rdx) X(H5Dread, rdx) X(H5Dwrite, rdx) X(H5Awrite, rdx) X(H5Aread, rdx) X(H5Lexists, rdx) \
  X(dnnl_primitive_create, rdx) X(dnnl_primitive_execute, rdx) X(dnnl_sgemm, rdx) X(crc32_iscsi, rsi) \
  X(crc32_gzip_refl, rdx) X(isal_inflate, rdx) X(MPI_Isend, rsi) X(MPI_Irecv, rsi) X(MPI_Iallgather, rsi) \
  X(MPI_Allgather, rsi) X(MPI_Allreduce, rdx) X(MPI_Barrier, rdx) X(MPI_Recv, rsi) X(MPI_Comm_dup, rdx) \
  X(MPI_Comm_split, rdx)

#define VARIABLE "DLRM_COUNTED_CALLS="

#define NUMBER(name, argument) kNumber_##name,
enum { FUNCTIONS(NUMBER) kFunctions };
#undef NUMBER

__attribute__((visibility("hidden"))) uintptr_t first, size, main_thread;
static uint64_t unused[3 * kFunctions + 3];

/* A call from the program is counted. Arguments stay in their registers. */
#define COUNT(name, argument)                                                                              \
  __attribute__((visibility("hidden"))) void* real_##name;                                                 \
  __attribute__((visibility("hidden"))) uint64_t* counts_##name = unused;                                  \
  __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name                                    \
          ":\n movq (%rsp), %r11\n subq first(%rip), %r11\n cmpq size(%rip), %r11\n jae 2f\n"              \
          " movq %fs:0, %r11\n cmpq main_thread(%rip), %r11\n movq counts_" #name "(%rip), %r11\n jne 1f\n"        \
          " lock incq (%r11)\n lock addq %" #argument ", 16(%r11)\n jmp 2f\n"                              \
          "1: lock incq 8(%r11)\n lock addq %" #argument ", 16(%r11)\n2: jmp *real_" #name "(%rip)\n");
FUNCTIONS(COUNT)
#undef COUNT

static int find_program(struct dl_phdr_info* info, size_t bytes, void* data) {
  (void)bytes, (void)data;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    first = info->dlpi_addr + part->p_vaddr;
    size = part->p_memsz;
  }
  return 1; /* the program is the first */
}

__attribute__((constructor)) static void prepare(int argc, char** argv, char** environment) {
  (void)argc, (void)argv;
#define FIND(name, argument) real_##name = dlsym(RTLD_NEXT, #name);
  FUNCTIONS(FIND)
#undef FIND
  __asm__("movq %%fs:0, %0" : "=r"(main_thread));
  const char* path = NULL; /* getenv() cannot be used yet */
  const size_t length = strlen(VARIABLE);
  for (; *environment && !path; ++environment) {
    if (strncmp(*environment, VARIABLE, length) == 0) path = *environment + length;
  }
  const int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  const size_t bytes = 24 * kFunctions;
  uint64_t* counts = ftruncate(file, (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
  if (counts == MAP_FAILED) abort();
#define PLACE(name, argument) counts_##name = counts + 3 * kNumber_##name;
  FUNCTIONS(PLACE)
#undef PLACE
  dl_iterate_phdr(find_program, NULL);
}
