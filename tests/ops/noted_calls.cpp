#include "noted_calls.h"

#include <dlfcn.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

namespace {

thread_local std::string* noted = nullptr;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void note(const std::string& text) {
  if (noted) *noted += (noted->empty() ? "" : ", ") + text;
}

}  // namespace

// These stand before the functions of libgomp and oneDNN, which they call.

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  static auto* const real = next<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  note(std::to_string(threads) + " threads");
  std::string* const outer = noted;
  noted = nullptr;  // regions within this one are not noted
  real(body, data, threads, flags);
  noted = outer;
}

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                                dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t* operands) {
  static auto* const real =
      next<dnnl_status_t(const_dnnl_primitive_t, dnnl_stream_t, int, const dnnl_exec_arg_t*)>(
          "dnnl_primitive_execute");
  note("product on " + std::to_string(omp_get_max_threads()));
  std::string* const outer = noted;
  noted = nullptr;
  const dnnl_status_t status = real(primitive, stream, count, operands);
  noted = outer;
  return status;
}

namespace dlrm {

NotedCalls::NotedCalls() { noted = new std::string; }
NotedCalls::~NotedCalls() {
  delete noted;
  noted = nullptr;
}
std::string NotedCalls::text() { return noted->empty() ? "-" : *noted; }

void NotedCalls::add(const std::string& what) { note(what); }

}  // namespace dlrm
