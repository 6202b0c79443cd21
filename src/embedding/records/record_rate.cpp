#include "dlrm/embedding/record_rate.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <vector>

#include "dlrm/core/process_usage.h"

#include "record_store.h"

namespace dlrm {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

RecordRate measure(RecordStore& store, int64_t rows, int64_t record_bytes, double seconds) {
  const int64_t batch = std::min<int64_t>(rows, 4096);
  std::vector<std::byte> records(static_cast<size_t>(batch * record_bytes));
  std::vector<uint8_t> written(static_cast<size_t>(batch));
  std::vector<int64_t> list(static_cast<size_t>(batch));
  RecordRate rate;
  auto begin = std::chrono::steady_clock::now();
  double cpu_begin = process_cpu_seconds();
  for (int64_t first = 0; first + batch <= rows; first += batch) {
    std::iota(list.begin(), list.end(), first);
    store.write(list, records.data());
  }
  const auto rows_written = static_cast<double>(rows / batch * batch);
  rate.rows_written = rows_written / seconds_since(begin);
  rate.write_cpu_seconds = (process_cpu_seconds() - cpu_begin) / rows_written;
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> any(0, rows / batch * batch - 1);
  int64_t read = 0;
  begin = std::chrono::steady_clock::now();
  cpu_begin = process_cpu_seconds();
  while (seconds_since(begin) < seconds || read == 0) {
    for (int64_t& row : list) row = any(random);
    std::sort(list.begin(), list.end());
    const auto distinct = static_cast<size_t>(std::unique(list.begin(), list.end()) - list.begin());
    store.read(View<const int64_t>(list).subspan(0, distinct), records.data(), written.data());
    read += static_cast<int64_t>(distinct);
  }
  rate.rows_read = static_cast<double>(read) / seconds_since(begin);
  rate.read_cpu_seconds = (process_cpu_seconds() - cpu_begin) / static_cast<double>(read);
  return rate;
}

}  // namespace

RecordRate measure_ssd(const std::string& directory, int64_t record_bytes, int64_t bytes,
                       double seconds) {
  SsdRecordsOptions options;
  options.directory = directory;
  options.name = "a measurement";
  const int64_t rows = std::max<int64_t>(bytes / record_bytes, 1);
  return measure(*make_ssd_records(rows, record_bytes, options), rows, record_bytes, seconds);
}

RecordRate measure_memory(int64_t record_bytes, int64_t bytes, double seconds) {
  const int64_t rows = std::max<int64_t>(bytes / record_bytes, 1);
  return measure(*make_memory_records(rows, record_bytes), rows, record_bytes, seconds);
}

}  // namespace dlrm
