#include "noted_calls.h"

#include <dlfcn.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

namespace {

thread_local std::string* noted = nullptr;
thread_local int only_part = -1, parts = 0;  // parts: of a region of which one part is run
thread_local bool fails_to_make = false, fails_to_run = false;

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
  if (only_part >= 0) {
    parts = static_cast<int>(threads);
    body(data);
    parts = 0;
    return;
  }
  std::string* const outer = noted;
  noted = nullptr;  // regions within this one are not noted
  real(body, data, threads, flags);
  noted = outer;
}

extern "C" int omp_get_thread_num() {
  static auto* const real = next<decltype(omp_get_thread_num)>("omp_get_thread_num");
  return parts > 0 ? only_part : real();
}

extern "C" int omp_get_num_threads() {
  static auto* const real = next<decltype(omp_get_num_threads)>("omp_get_num_threads");
  return parts > 0 ? parts : real();
}

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                                dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t* operands) {
  static auto* const real = next<decltype(dnnl_primitive_execute)>("dnnl_primitive_execute");
  if (fails_to_run) return dnnl_runtime_error;
  note("product on " + std::to_string(omp_get_max_threads()));
  std::string* const outer = noted;
  noted = nullptr;
  const dnnl_status_t status = real(primitive, stream, count, operands);
  noted = outer;
  return status;
}

extern "C" dnnl_status_t dnnl_primitive_desc_iterator_create(
    dnnl_primitive_desc_iterator_t* iterator, const_dnnl_op_desc_t operation,
    const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine,
    const_dnnl_primitive_desc_t hint) {
  static auto* const real =
      next<decltype(dnnl_primitive_desc_iterator_create)>("dnnl_primitive_desc_iterator_create");
  if (fails_to_make) return dnnl_unimplemented;
  return real(iterator, operation, attributes, engine, hint);
}

namespace dlrm {

FailingProducts::FailingProducts(At at) { (at == At::kMake ? fails_to_make : fails_to_run) = true; }
FailingProducts::~FailingProducts() { fails_to_make = fails_to_run = false; }

OnlyPart::OnlyPart(int part) { only_part = part; }
OnlyPart::~OnlyPart() { only_part = -1; }

NotedCalls::NotedCalls() { noted = new std::string; }
NotedCalls::~NotedCalls() {
  delete noted;
  noted = nullptr;
}
std::string NotedCalls::text() { return noted->empty() ? "-" : *noted; }

void NotedCalls::add(const std::string& what) { note(what); }

}  // namespace dlrm
