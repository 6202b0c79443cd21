#include <algorithm>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {
namespace {

using P = Preprocessing;

std::string dense_difference(const P::Dense& a, const P::Dense& b) {
  const char* what = a.column != b.column         ? "the column"
                     : a.fill != b.fill           ? "`fill`"
                     : a.least != b.least         ? "`clip`"
                     : a.most != b.most           ? "`clip`"
                     : a.log != b.log             ? "`log`"
                     : a.mean != b.mean           ? "the mean"
                     : a.deviation != b.deviation ? "the deviation"
                                                  : nullptr;
  return what != nullptr ? fmt::format("{} of {}", what, a.column) : "";
}

bool grew(const P::Dictionary& newer, const P::Dictionary& older) {
  const auto values = newer.values.texts(), known = older.values.texts();
  return newer.of_texts == older.of_texts && values.size() >= known.size() &&
         std::equal(known.begin(), known.end(), values.begin());
}

const P::Sparse* find(const P& preprocessing, const std::string& feature) {
  const auto found = std::ranges::find_if(preprocessing.sparse,
                                          [&](const auto& s) { return s.feature == feature; });
  return found != preprocessing.sparse.end() ? &*found : nullptr;
}

const char* sparse_difference(const P& newer, const P& older, const std::string& feature) {
  const P::Sparse *a = find(newer, feature), *b = find(older, feature);
  if (a == nullptr || b == nullptr) return a == b ? nullptr : "the column";
  if (a->column != b->column) return "the column";
  if (a->values != b->values) return "`values`";
  if (a->encoding != b->encoding) return "the kind of encoding";
  if (a->rows != b->rows) return "the number of rows";
  if (a->fill != b->fill || a->fill_integer != b->fill_integer) return "`fill`";
  if (a->list != b->list) return "`list`";
  if (a->encoding != P::Encoding::kDictionary) return nullptr;
  const bool same = grew(newer.dictionaries[a->dictionary], older.dictionaries[b->dictionary]);
  return same ? nullptr : "the dictionary";
}

}  // namespace

std::string difference(const Preprocessing& newer, const Preprocessing& older,
                       const std::vector<std::string>& features) {
  if (newer.missing != older.missing) return "`missing` of the format";
  if (newer.dense.size() != older.dense.size()) return "the number of dense columns";
  for (size_t i = 0; i < newer.dense.size(); ++i) {
    std::string found = dense_difference(newer.dense[i], older.dense[i]);
    if (!found.empty()) return found;
  }
  for (const std::string& feature : features) {
    const char* const found = sparse_difference(newer, older, feature);
    if (found != nullptr) return fmt::format("{} of {}", found, feature);
  }
  return {};
}

namespace {

std::string difference(const FilePreprocessing& newer, const FilePreprocessing& older,
                       const std::vector<std::string>& features) {
  if (newer.bytes.empty() || older.bytes.empty() || newer.bytes == older.bytes) return {};
  const auto parsed = [](const FilePreprocessing& of) {
    return parse_preprocessing(of.bytes, of.file + ": /preprocessing");
  };
  return difference(parsed(newer), parsed(older), features);
}

}  // namespace

void check_extends(const FilePreprocessing& newer, const FilePreprocessing& older,
                   const std::vector<std::string>& features) {
  const std::string found = difference(newer, older, features);
  if (found.empty()) return;
  throw usage_error(
      "{}: {} is not that of {}, nor grown from it, so the same ids or numbers would not mean the "
      "same; `dlrm-data import --dictionary` goes on with those of an earlier import",
      newer.file, found, older.file);
}

FilePreprocessing widest(const std::vector<FilePreprocessing>& all,
                         const std::vector<std::string>& features) {
  FilePreprocessing result;
  for (const FilePreprocessing& next : all) {
    if (next.bytes.empty()) continue;
    if (!result.bytes.empty()) {
      if (difference(result, next, features).empty()) continue;
      check_extends(next, result, features);
    }
    result = next;
  }
  return result;
}

}  // namespace dlrm
