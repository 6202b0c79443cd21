#include <sstream>

#include "fixture.h"

namespace dlrm {
namespace {

/// Writes the samples of test.h5 as lines of JSON.
constexpr const char* kWriteLines = R"(
import h5py, json
file = h5py.File("test.h5")
features = {}
for name, group in file["sparse"].items():
    ids, offsets = group["ids"][:].tolist(), group.get("offsets")
    if offsets is None:
        hotness = int(group["ids"].attrs["hotness"])
        offsets = range(0, len(ids) + 1, hotness)
    features[name] = ids, list(map(int, offsets))
with open("samples.jsonl", "w") as out:
    for i, dense in enumerate(file["dense"][:].tolist()):
        ids = {name: ids[offsets[i]:offsets[i + 1]] for name, (ids, offsets) in features.items()}
        print(json.dumps({"dense": dense, "ids": ids}), file=out)
)";

/// Serves over HTTP: asks about all samples from several threads while a longer training saves a
/// newer checkpoint, and stops the server by a signal.
constexpr const char* kServe = R"py(
import csv, http.client, json, signal, struct, subprocess, sys, threading

def expected(path):
    return [float(row[2]) for row in list(csv.reader(open(path)))[1:]]

lines = open("samples.jsonl").read().splitlines()
server = subprocess.Popen(["dlrm-infer", "ckpt", "--port", "0", "--reload-interval", "0.1",
                           "--timeout", "1"], stdout=subprocess.PIPE, text=True)
port = int(server.stdout.readline().rsplit(":", 1)[1])
first, errors, done = expected("first.csv"), [], threading.Event()

def ask(connection, body, kind="application/json", path="/predict"):
    connection.request("POST", path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    return answer.status, answer.read()

def near(p, q):
    return len(p) == len(q) and all(abs(a - b) <= 1e-6 for a, b in zip(p, q))

def client(begin):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    rounds = 0
    while not done.is_set() or rounds == 0:
        rounds += 1
        chosen = slice(begin, begin + 20)
        status, text = ask(connection, '{"samples": [' + ",".join(lines[chosen]) + "]}")
        p = json.loads(text).get("probabilities", []) if status == 200 else text
        if status != 200 or not (near(p, first[chosen]) or near(p, second[chosen])):
            errors.append((status, p))
            return

def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().read().decode()

# The later model is trained elsewhere first, so that clients know both answers.
second = expected("second.csv")
clients = [threading.Thread(target=client, args=[30 * i]) for i in range(4)]
for thread in clients: thread.start()
subprocess.run(["mv", "later/step_000000060", "ckpt/"], check=True)
while not done.wait(0.05):
    if json.loads(get("/model"))["step"] == 60: done.set()
for thread in clients: thread.join()
assert not errors, errors[0]

connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
status, text = ask(connection, '{"samples": [' + ",".join(lines) + "]}")
assert status == 200 and near(json.loads(text)["probabilities"], second), status
names = [feature["name"] for feature in json.loads(get("/model"))["features"]]
samples = [json.loads(line) for line in lines]
bags = [[sample["ids"][name] for name in names] for sample in samples]
body = struct.pack("<II", 1, len(samples))
for sample in samples: body += struct.pack("<4f", *sample["dense"])
for sample in bags: body += struct.pack("<4I", *map(len, sample))
for sample in bags: body += b"".join(struct.pack("<%dq" % len(bag), *bag) for bag in sample)
status, answer = ask(connection, body, "application/octet-stream")
assert status == 200 and near(struct.unpack("<%df" % len(samples), answer), second), status
status, text = ask(connection, '{"samples": [{"dense": [1, 2, 3, 4], "ids": {"tiny": [3]}}]}')
assert (status, json.loads(text)["error"]) == (
    400, "samples[0]: ids.tiny[0]: 3; needs a whole number from 0 to 2"), text
metrics = get("/metrics")
assert "\ndlrm_infer_reloads_total 1\n" in metrics and "\ndlrm_infer_model_step 60\n" in metrics
server.send_signal(getattr(signal, sys.argv[1]))
assert server.wait(30) == 0, server.returncode
)py";

class Inferring : public TrainedRun {
 protected:
  Outcome infer(const std::string& arguments) const {
    return run_command("dlrm-infer " + arguments, folder_.path());
  }
};

std::vector<double> predicted(const std::filesystem::path& csv) {
  std::istringstream text(read_file(csv));
  std::vector<double> all;
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) all.push_back(std::stod(line.substr(line.rfind(',') + 1)));
  return all;
}

TEST_F(Inferring, EverySampleHasTheProbabilityOfPredict) {
  ASSERT_EQ(train(1, "--predict test.csv --set output.directory=after").code, 0);
  const std::vector<double> expected = predicted(path("test.csv"));
  ASSERT_EQ(expected.size(), 501u);
  write_file(path("lines.py"), kWriteLines);
  ASSERT_EQ(run_command("/usr/bin/python3 lines.py", folder_.path()).code, 0);
  for (const auto& [options, near] : {std::pair("", 1e-6),
                                      {"--tables fp32 --batch-size 7 --threads 1", 1e-6},
                                      {"--tables mapped", 1e-6},
                                      {"--tables int8", 0.01},
                                      {"--tables bf16", 0.01}}) {
    const Outcome outcome =
        infer("ckpt " + std::string(options) + " < samples.jsonl > answers.jsonl");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const auto answers = read_lines(path("answers.jsonl"));
    ASSERT_EQ(answers.size(), expected.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_NEAR(answers[i].at("probability").get<double>(), expected[i], near) << options;
    }
  }
}

TEST_F(Inferring, AServerTakesTheNextCheckpointWithoutLosingARequest) {
  ASSERT_EQ(train(1, "--predict first.csv --set output.directory=after").code, 0);
  const Outcome later =
      train(1,
            "--init-from ckpt --set train.steps=60 --set checkpoint.directory=later "
            "--set checkpoint.at_end=true --set output.directory=longer");
  ASSERT_EQ(later.code, 0) << later.errors;
  ASSERT_EQ(train(1, "--predict second.csv --resume=later --set output.directory=after").code, 0);
  write_file(path("lines.py"), kWriteLines);
  ASSERT_EQ(run_command("/usr/bin/python3 lines.py", folder_.path()).code, 0);
  write_file(path("serve.py"), kServe);
  const Outcome outcome = run_command("/usr/bin/python3 serve.py SIGTERM", folder_.path());
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("(step 60)"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("stopped"), std::string::npos) << outcome.errors;
}

TEST_F(Inferring, OptionsOfTheServerNeedAPort) {
  const Outcome outcome = infer("ckpt --batch-wait 5");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(error_line(outcome).find("--batch-wait requires --port"), std::string::npos)
      << outcome.errors;
  EXPECT_EQ(infer("ckpt --port 65536").code, 2);
  EXPECT_EQ(infer("ckpt --port 0 --host 192.0.2.1").code, 2);
}

TEST_F(Inferring, BadLinesAreAnsweredAndBadUsageEndsIt) {
  const Outcome lines = infer("ckpt/step_000000040 <<< '{\"dense\": [1]}'");
  EXPECT_EQ(lines.code, 0) << lines.errors;
  EXPECT_NE(lines.output.find("{\"error\": \"dense: 1 values; the model takes "),
            std::string::npos);
  EXPECT_EQ(infer("absent").code, 2);
  EXPECT_EQ(error_line(infer("absent")), "error: absent: there is no checkpoint");
  EXPECT_EQ(infer("ckpt/step_000000041").code, 2);
  EXPECT_EQ(infer("ckpt --tables int4").code, 2);
  EXPECT_EQ(error_line(infer("ckpt --tables int4")),
            "error: --tables int4: expected fp32, bf16, int8 or mapped");
  EXPECT_EQ(infer("ckpt --batch-size 0").code, 2);
  EXPECT_EQ(infer("").code, 2);
  EXPECT_EQ(infer("ckpt <<< '{}' > /dev/full").code, 3);
  EXPECT_EQ(infer("--version").code, 0);
}

TEST_F(Inferring, DamagedCheckpointsAreNotUsed) {
  ASSERT_EQ(train(1, "--resume --set train.steps=41 --set checkpoint.at_end=true").code, 0);
  ASSERT_EQ(run_command("echo damaged >> ckpt/step_000000041/rank_00000.h5", folder_.path()).code,
            0);
  const Outcome older = infer("ckpt < /dev/null");
  EXPECT_EQ(older.code, 0);
  EXPECT_NE(older.errors.find("step 40"), std::string::npos) << older.errors;
  EXPECT_EQ(infer("ckpt/step_000000041 < /dev/null").code, 2);
}

}  // namespace
}  // namespace dlrm
