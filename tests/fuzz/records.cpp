// A body of records, encoded by a preprocessing of every kind of column.
#include <cmath>

#include "dlrm/encode/json_records.h"

#include "fuzz.h"

namespace dlrm::fuzz {
namespace {

using P = Preprocessing;

constexpr int64_t kRows = 50;

Preprocessing preprocessing() {
  Preprocessing p;
  p.missing = {"", "NA"};
  p.dense = {{"a", 1.0, -5, 100, true, {}, 1}, {"b", {}, -1e30, 1e30, false, 3.0, 0.5}};
  const std::vector<std::string_view> known = {"x", "12", ""};
  int32_t numbers[3];
  p.dictionaries.emplace_back().values.number_all(known, 0, numbers);
  const auto add = [&](const char* name, P::Values values, P::Encoding encoding) -> P::Sparse& {
    P::Sparse& sparse = p.sparse.emplace_back();
    sparse.feature = sparse.column = name;
    sparse.values = values;
    sparse.encoding = encoding;
    sparse.rows = kRows;
    return sparse;
  };
  add("t", P::Values::kText, P::Encoding::kDictionary);
  add("h", P::Values::kText, P::Encoding::kHash).fill = "none";
  add("i", P::Values::kInteger, P::Encoding::kIntegers).fill_integer = 3;
  add("m", P::Values::kInteger, P::Encoding::kHash);
  add("x", P::Values::kHex, P::Encoding::kHash);
  add("l", P::Values::kText, P::Encoding::kHash).list = P::List{"|", 3, true};
  add("n", P::Values::kInteger, P::Encoding::kIntegers).list = P::List{};
  return p;
}

const Encoder& encoder() {
  static const Encoder made(preprocessing());
  return made;
}

/// Ends the process if a field becomes what no field can be.
void encode(const Records& records, const Columns& columns) {
  for (size_t r = 0; r < records.size(); ++r) {
    for (size_t i = 0; i < encoder().preprocessing().dense.size(); ++i) {
      accepted(ExitCode::kUsage, [&] {
        const float value = encoder().dense(i, records.field(r, columns.dense(i)));
        if (!std::isfinite(value)) fail("a dense value is not finite");
      });
    }
    for (size_t f = 0; f < encoder().preprocessing().sparse.size(); ++f) {
      std::vector<int64_t> ids;
      accepted(ExitCode::kUsage, [&] {
        encoder().append_ids(f, records.field(r, columns.sparse(f)), ids);
        for (const int64_t id : ids) {
          if (id < 0 || id >= kRows) fail("id {}", id);
        }
      });
    }
  }
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Columns columns(encoder().preprocessing(), {"key"});
  accepted(ExitCode::kUsage, [&] {
    const SharedRecords read = read_records(text, columns, 1000);
    encode(read.records, columns);
    encode(read.shared, columns);
  });
  Records one(columns.size());
  const bool whole = accepted(ExitCode::kUsage, [&] { append_record(text, columns, one); });
  if (one.size() != (whole ? 1u : 0u)) fail("{} records", one.size());
  encode(one, columns);
  return 0;
}
