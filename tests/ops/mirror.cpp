#include "mirror.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "dlrm/core/error.h"

namespace dlrm {

const void* Mirror::place(const void* p, size_t bytes, bool writable) {
  if (p == nullptr || bytes == 0) return nullptr;
  const char* host = static_cast<const char*>(p);
  if (!uploaded_) {
    pieces_.push_back({host, bytes, operand_, writable && output_});
    return p;
  }
  const Region& region = region_of(p);
  return region.on_device() + (host - region.begin);
}

void Mirror::merge() {
  std::vector<Piece> sorted = pieces_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Piece& a, const Piece& b) { return a.host < b.host; });
  for (const Piece& piece : sorted) {
    if (regions_.empty() || piece.host >= regions_.back().end) {
      regions_.push_back({piece.host, piece.host + piece.bytes, {}, {}, 0});
    } else {
      regions_.back().end = std::max(regions_.back().end, piece.host + piece.bytes);
    }
  }
}

void Mirror::upload() {
  merge();
  for (Region& r : regions_) {
    const auto bytes = static_cast<size_t>(r.end - r.begin);
    const size_t wanted = reinterpret_cast<uintptr_t>(r.begin) % 256;
    // A copy ends where its memory ends, so that the emulator with AddressSanitizer and a guarded
    // device find what lies beyond.
    r.shift = device_.host_visible_memory() ? 0 : wanted;
    r.memory = Buffer(device_, r.shift + bytes, "a copy of arguments");
    r.staging = Buffer(device_, bytes, "staged arguments", MemoryKind::kHost);
    std::memcpy(r.staging.data(), r.begin, bytes);
    device_.copy(r.on_device(), r.staging.data(), bytes, stream_);
  }
  uploaded_ = true;
}

void Mirror::download() {
  for (const Region& r : regions_) {
    device_.copy(r.staging.data(), r.on_device(), r.staging.bytes(), stream_);
  }
  stream_.synchronize();
  const auto changed = [this](const Piece& piece) {
    return std::memcmp(piece.host, result(piece), piece.bytes) != 0;
  };
  for (Piece& piece : pieces_) piece.written = piece.output && changed(piece);
  for (const Piece& piece : pieces_) {
    // Does not write read-only memory, because threads may share it.
    if (piece.written) std::memcpy(const_cast<char*>(piece.host), result(piece), piece.bytes);
  }
  for (const Piece& piece : pieces_) {
    if (changed(piece)) throw run_error("the call wrote '{}', which it only reads", piece.operand);
  }
}

void Mirror::note_outputs(const std::string& operation, Outputs& outputs) const {
  for (const Piece& piece : pieces_) {
    const std::string name = operation + ": " + piece.operand;
    if (piece.output) outputs.declared.insert(name);
    if (piece.written) outputs.written.insert(name);
  }
}

const char* Mirror::result(const Piece& piece) const {
  const Region& r = region_of(piece.host);
  return r.staged() + (piece.host - r.begin);
}

const Mirror::Region& Mirror::region_of(const void* p) const {
  const char* host = static_cast<const char*>(p);
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), host,
                       [](const char* at, const Region& region) { return at < region.begin; });
  if (after == regions_.begin() || host >= std::prev(after)->end) {
    throw run_error("an argument that was not collected");
  }
  return *std::prev(after);
}

}  // namespace dlrm
