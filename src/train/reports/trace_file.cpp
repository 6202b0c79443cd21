#include "dlrm/train/trace_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/log.h"
#include "dlrm/core/replace_file.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

namespace {

struct PackedEvent {
  int64_t name;  // index into the rank's names
  int64_t begin_ns;
  int64_t end_ns;
};

struct Track {
  std::string names;  // each ended by a newline
  std::vector<PackedEvent> events;
};

Track pack(const Trace& trace, size_t most) {
  Track track;
  std::vector<const char*> known;
  const auto& events = trace.events();
  for (size_t i = 0; i < std::min(most, events.size()); ++i) {
    const Trace::Event& event = events[i];
    const auto name = std::find_if(known.begin(), known.end(), [&](const char* other) {
      return std::strcmp(event.name, other) == 0;
    });
    track.events.push_back({name - known.begin(), event.begin_ns, event.end_ns});
    if (name != known.end()) continue;
    known.push_back(event.name);
    track.names += std::string(event.name) + "\n";
  }
  return track;
}

std::vector<std::string> quoted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(nlohmann::json(text.substr(begin, end - begin)).dump());
    begin = end + 1;
  }
  return lines;
}

/// The tracks of all ranks, on rank 0.
struct Tracks {
  std::vector<std::string> names;
  std::vector<int64_t> epochs;
  std::vector<int64_t> counts;
  std::vector<PackedEvent> events;
  int64_t dropped = 0;
};

void write_tracks(const Tracks& tracks, const std::string& path) {
  const int64_t start = *std::min_element(tracks.epochs.begin(), tracks.epochs.end());
  FileReplacement file(path);
  file.write(
      fmt::format("{{\"displayTimeUnit\": \"ms\", \"otherData\": {{\"dropped_events\": {}}}, "
                  "\"traceEvents\": [\n",
                  tracks.dropped));
  file.write(R"({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "dlrm-train"}})");
  size_t next = 0;
  for (size_t rank = 0; rank < tracks.counts.size(); ++rank) {
    file.write(
        fmt::format(",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 0, \"tid\": {0}, "
                    "\"args\": {{\"name\": \"rank {0}\"}}}}",
                    rank));
    file.write(
        fmt::format(",\n{{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": 0, "
                    "\"tid\": {0}, \"args\": {{\"sort_index\": {0}}}}}",
                    rank));
    const std::vector<std::string> names = quoted_lines(tracks.names[rank]);
    const int64_t shift = tracks.epochs[rank] - start;
    const size_t end = next + static_cast<size_t>(tracks.counts[rank]);
    for (; next < end; ++next) {
      const PackedEvent& e = tracks.events[next];
      file.write(fmt::format(
          ",\n{{\"ph\": \"X\", \"name\": {}, \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": "
          "{:.3f}}}",
          names[static_cast<size_t>(e.name)], rank, 1e-3 * static_cast<double>(shift + e.begin_ns),
          1e-3 * static_cast<double>(e.end_ns - e.begin_ns)));
    }
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace

void check_trace_path(Communicator& comm, const std::string& path) {
  agree_on_root(comm, [&] {
    std::error_code ignored;
    const auto there = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
      throw usage_error("--profile: {} is {}; it needs a file's name", path,
                        std::filesystem::is_directory(there) ? "a folder" : "no regular file");
    }
    try {
      const FileReplacement file(path);
    } catch (const Error& error) {
      throw usage_error("--profile: {}", error.what());
    }
  });
}

void write_trace(Communicator& comm, const Trace& trace, const std::string& path,
                 int64_t most_events) {
  const auto most = static_cast<size_t>(most_events / comm.size());
  const Track mine = pack(trace, most);
  std::vector<int64_t> dropped = {static_cast<int64_t>(trace.events().size() - mine.events.size())};
  comm.allreduce(View<int64_t>(dropped));
  Tracks tracks;
  tracks.names = gather_texts(comm, mine.names);
  tracks.epochs = comm.allgather(trace.epoch_ns());
  tracks.counts = comm.allgather(static_cast<int64_t>(mine.events.size()));
  tracks.events = comm.gatherv<PackedEvent>(mine.events, tracks.counts);
  tracks.dropped = dropped[0];
  agree_on_root(comm, [&] { write_tracks(tracks, path); });
  if (comm.rank() == 0 && tracks.dropped > 0) {
    Log().warn("{}: holds the first {} spans of each rank; {} later ones are left out", path, most,
               tracks.dropped);
  }
}

}  // namespace dlrm
