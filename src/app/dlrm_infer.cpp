#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/spin_limit.h"
#include "dlrm/train/stop_signal.h"

#include "serve/http_server.h"
#include "serve/lines.h"
#include "serve/model_watch.h"

namespace dlrm {
namespace {

constexpr int kMostThreads = 1024;
constexpr int64_t kMostBatch = int64_t{1} << 20;

struct Arguments {
  std::string checkpoint;
  int threads = 0;
  serve::LoadOptions load;
  serve::HttpOptions http;
  std::string model_name = "dlrm";
  std::string records;  // a file, or - for stdin
  std::vector<std::string> keys;
  std::string format;           // of records: json, csv, tsv, parquet
  int64_t batch_wait = 100;     // microseconds
  double max_body = 16;         // MiB
  double reload_interval = 10;  // seconds
};

void declare(CLI::App& app, Arguments& a) {
  app.set_version_flag("--version", std::string("dlrm-infer ") + DLRM_VERSION);
  app.add_option("CHECKPOINT", a.checkpoint,
                 "a folder of checkpoints, whose best (checkpoint.keep_best) or newest good one is "
                 "taken, or one of them")
      ->required();
  app.add_option_function<std::string>(
         "--tables", [&a](const std::string& name) { a.load.tables = serve::table_type(name); },
         "how rows are held: in memory as fp32, bf16, or int8 with a scale for each row, or "
         "mapped: as fp32 in the checkpoint's files (default: in memory, as trained)")
      ->type_name("TYPE");
  app.add_option("--batch-size", a.load.batch_size, "samples computed at once, at most (256)")
      ->check(CLI::Range(int64_t{1}, kMostBatch));
  app.add_option("--threads", a.threads, "that compute (default: OMP_NUM_THREADS, or all cores)")
      ->check(CLI::Range(1, kMostThreads));
}

void declare_records(CLI::App& app, Arguments& a) {
  CLI::Option* records = app.add_option("--records", a.records,
                                        "predict records as `dlrm-data import` reads them: CSV, "
                                        "TSV, JSON lines, Parquet; - is stdin");
  records->type_name("FILE");
  app.add_option(
         "--format", a.format,
         "json, csv, tsv or parquet (default: by the name's ending and the import's schema)")
      ->check(CLI::IsMember({"json", "csv", "tsv", "parquet"}))
      ->needs(records);
  app.add_option("--keys", a.keys,
                 "columns, with commas, whose values are written beside each probability")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B")
      ->needs(records);
}

CLI::Option* declare_http(CLI::App& app, Arguments& a) {
  CLI::Option* port = app.add_option("--port", a.http.port,
                                     "serve HTTP at this port, instead of reading stdin; 0: any")
                          ->check(CLI::Range(0, 65535));
  const auto add = [&](const char* name, auto& value, const char* help, auto least, auto most) {
    app.add_option(name, value, help)->check(CLI::Range(least, most))->needs(port);
  };
  app.add_option("--host", a.http.host, "the address to listen at (127.0.0.1)")->needs(port);
  app.add_option("--model-name", a.model_name, "the model's name below /v2/models (dlrm)")
      ->check(CLI::Validator(
          [](const std::string& name) -> std::string {
            const bool plain =
                !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                  return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                });
            return plain ? "" : "needs letters, digits, -, _ and .";
          },
          "NAME"))
      ->needs(port);
  add("--batch-wait", a.batch_wait,
      "microseconds that a request waits for others, to be computed with them (100)", int64_t{0},
      int64_t{10000000});
  add("--max-body", a.max_body, "MiB of a request's body, at most (16)", 0.001, 4096.0);
  add("--max-samples", a.http.max_samples, "samples of a request, at most (65536)", int64_t{1},
      int64_t{1} << 30);
  add("--max-connections", a.http.max_connections, "served at a time (64)", 1, 4096);
  add("--max-requests", a.http.max_requests, "of one connection, which is then closed (100000)", 1,
      1000000000);
  add("--timeout", a.http.timeout,
      "seconds for a request's header, its body, its answer, and between requests (5)", 1, 3600);
  add("--reload-interval", a.reload_interval,
      "seconds between looks for a newer checkpoint (10); 0: never", 0.0, 1e6);
  return port;
}

/// The folder of the checkpoint to load.
std::string find(Communicator& comm, const std::string& given) {
  const auto found = find_trained(comm, given);
  if (!found) throw usage_error("{}: there is no checkpoint", given);
  return *found;
}

/// Serves until a signal asks to stop.
void serve_http(Arguments& a, std::shared_ptr<serve::TrainedModel> model) {
  const StopSignal stop;
  a.http.max_body = static_cast<size_t>(a.max_body * 0x1p20);
  serve::CheckpointWatch watch(a.checkpoint, model->checkpoint());
  serve::Counters counters;
  serve::Batcher batcher(std::move(model), a.load.batch_size,
                         std::chrono::microseconds(a.batch_wait), counters);
  serve::HttpServer server(a.http, batcher, counters, a.model_name);
  const int port = server.bind();
  std::optional<serve::Reloader> reloader;
  if (a.reload_interval > 0) {
    reloader.emplace(std::move(watch), a.load, std::chrono::duration<double>(a.reload_interval),
                     batcher, counters);
  }
  fmt::print("listening on http://{}:{}\n", a.http.host, port);
  std::fflush(stdout);
  server.serve([&] { return stop.requested(); });
  Log().info("stopped");
}

void run(Arguments& a, bool serves_http) {
  const auto comm = make_self_comm();
  const int threads = threads_for(a.threads, machine_share(*comm));
  a.load.threads = threads;
  if (serves_http) a.load = a.load.for_requests();
  const auto loaded = std::make_shared<serve::TrainedModel>(find(*comm, a.checkpoint), a.load);
  serve::TrainedModel& model = *loaded;
  const Log log;
  log.info("{} (step {}): {} features, tables of {:.1f} MiB, {} thread{}", model.checkpoint(),
           model.step(), model.inputs().features.size(),
           static_cast<double>(model.table_bytes()) / 0x1p20, threads, threads == 1 ? "" : "s");
  if (serves_http) return serve_http(a, loaded);
  serve::LineOptions lines;
  lines.keys = a.keys;
  if (!a.records.empty()) {
    lines.records = record_format(a.records, a.format, model.records().preprocessing().log);
    if (lines.records->kind == RecordFormat::Kind::kParquet) {
      return serve::predict_parquet(model, a.keys, a.load.batch_size, a.records, STDOUT_FILENO);
    }
  }
  std::optional<File> file;
  if (lines.records && a.records != "-") {
    file = File::try_open(a.records, File::Mode::kRead);
    if (!file) throw usage_error("{}: cannot open: {}", a.records, std::strerror(errno));
  }
  serve::predict_lines(model, lines, a.load.batch_size, file ? file->descriptor() : STDIN_FILENO,
                       STDOUT_FILENO);
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  using dlrm::ExitCode;
  dlrm::limit_spinning(argv);
  // A reader of the answers that has gone is then an error of a write.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Predicts with a trained model: a sample per line of stdin, or over HTTP.",
               "dlrm-infer"};
  dlrm::Arguments arguments;
  ExitCode code = ExitCode::kDone;
  dlrm::declare(app, arguments);
  CLI::Option* port = dlrm::declare_http(app, arguments);
  dlrm::declare_records(app, arguments);
  port->excludes("--records");
  try {
    app.parse(argc, argv);
    dlrm::run(arguments, port->count() > 0);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {} (see dlrm-infer --help)\n", error.what());
    code = ExitCode::kUsage;
  } catch (const dlrm::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    code = error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    code = ExitCode::kFailure;
  }
  return static_cast<int>(code);
}
