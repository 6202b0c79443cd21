#pragma once
#include <string>

#include <isa-l/igzip_lib.h>

namespace dlrm {

/// The text as one gzip member.
inline std::string gzip_bytes(const std::string& text) {
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  std::string bytes(text.size() + 1024, '\0');
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(bytes.data());
  stream.avail_out = static_cast<uint32_t>(bytes.size());
  if (isal_deflate_stateless(&stream) != COMP_OK) throw std::runtime_error("cannot compress");
  bytes.resize(stream.total_out);
  return bytes;
}

}  // namespace dlrm
