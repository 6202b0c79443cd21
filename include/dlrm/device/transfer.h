#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dlrm/device/device.h"

namespace dlrm {

/// Copies between a device's memory and any memory of the host, through a pinned chunk. A copy
/// starts after the work that `stream` holds and is done when the call returns. It blocks the host,
/// so steps do not use it. If the host sees the device's memory, it copies directly.
class Transfer {
 public:
  Transfer(Device& device, Stream& stream)
      : device_(device), stream_(stream), chunk_(device, 0, "chunk for copies to the host") {}

  void to_host(void* to, const void* from, size_t bytes) {
    read_rows(static_cast<const char*>(from), static_cast<int64_t>(bytes), 1,
              static_cast<int64_t>(bytes), static_cast<char*>(to));
  }
  void to_device(void* to, const void* from, size_t bytes) {
    write_rows(static_cast<char*>(to), static_cast<int64_t>(bytes), 1, static_cast<int64_t>(bytes),
               static_cast<const char*>(from));
  }

  /// Copies `rows` rows of `columns` elements, `stride` elements apart on the device, to packed
  /// rows at `to`.
  template <class T>
  void read_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, T* to) {
    if (device_.host_visible_memory()) return pack(from, stride, rows, columns, to, columns);
    in_pieces(rows, columns, stride, sizeof(T),
              [&](int64_t row, int64_t count, int64_t column, int64_t width, int64_t apart) {
                const size_t bytes = size_of_rows(count, width, apart) * sizeof(T);
                device_.copy(chunk_.data(), from + row * stride + column, bytes, stream_);
                stream_.synchronize();
                pack(reinterpret_cast<const T*>(chunk_.data()), apart, count, width,
                     to + row * columns + column, columns);
              });
  }
  /// Like read_rows(), in the other direction. Elements between the rows on the device become zero.
  template <class T>
  void write_rows(T* to, int64_t stride, int64_t rows, int64_t columns, const T* from) {
    if (device_.host_visible_memory()) return pack(from, columns, rows, columns, to, stride);
    in_pieces(rows, columns, stride, sizeof(T),
              [&](int64_t row, int64_t count, int64_t column, int64_t width, int64_t apart) {
                const size_t bytes = size_of_rows(count, width, apart) * sizeof(T);
                std::memset(chunk_.data(), 0, bytes);
                pack(from + row * columns + column, columns, count, width,
                     reinterpret_cast<T*>(chunk_.data()), apart);
                device_.copy(to + row * stride + column, chunk_.data(), bytes, stream_);
                stream_.synchronize();
              });
  }

 private:
  static constexpr size_t kChunk = size_t{4} << 20;

  template <class T>
  static void pack(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                   int64_t to_stride) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * from_stride, columns, to + r * to_stride);
    }
  }
  static size_t size_of_rows(int64_t rows, int64_t columns, int64_t apart) {
    return static_cast<size_t>((rows - 1) * apart + columns);
  }

  /// Calls piece(first row, rows, first column, columns, stride) for parts that fit the chunk:
  /// whole rows, or parts of one row if a row does not fit.
  template <class Piece>
  void in_pieces(int64_t rows, int64_t columns, int64_t stride, size_t element, Piece piece) {
    if (rows <= 0 || columns <= 0) return;
    chunk_.reserve(std::min(kChunk, size_of_rows(rows, columns, stride) * element));
    const auto fits = static_cast<int64_t>(kChunk / element);
    if (rows == 1 || stride > fits) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; c += fits) {
          piece(r, 1, c, std::min(fits, columns - c), int64_t{0});
        }
      }
      return;
    }
    for (int64_t r = 0; r < rows; r += fits / stride) {
      piece(r, std::min(fits / stride, rows - r), int64_t{0}, columns, stride);
    }
  }

  Device& device_;
  Stream& stream_;
  HostArray<char> chunk_;
};

}  // namespace dlrm
