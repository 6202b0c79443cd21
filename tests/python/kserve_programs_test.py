"""dlrm-infer as tritonclient, a client of the Open Inference Protocol (KServe v2), speaks to it. Without tritonclient
the tests are skipped, with a message. Usage: kserve_programs_test.py DLRM_DATA DLRM_TRAIN DLRM_INFER"""
import contextlib
import json
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from import_fixture import main
from serving_fixture import Serving, take_programs

try:
    import tritonclient.http as triton
    from tritonclient.utils import InferenceServerException
    ABSENT = None
except ImportError as error:
    ABSENT = f"{error.name or error} is missing (launch/install_deps.sh kserve)"

SCHEMA = "label: click\ndense: [age]\nsparse: [user, {column: tags, list: {separator: '|'}}]\n"
LOG = "click,age,user,tags\n" + "".join(f"{i % 2},{i},u{i % 7},a{i % 3}|b{i % 5}\n" for i in range(60))
IDS = """
model:
  {dense_features: 2, bottom_mlp: [4], top_mlp: [4, 1], embedding_dim: 4, TASKS
   tables: [{name: a, rows: 9}, {name: b, rows: 5, features: [{name: b, hotness: 3, WEIGHTS}]}]}
data: {source: synthetic}
train: {steps: 1, global_batch_size: 8}
checkpoint: {directory: ckpt, every_steps: 1}
"""
TYPES = {"records": "BYTES", "shared": "BYTES", "dense": "FP32", "lengths": "UINT32", "ids": "INT64", "weights": "FP32"}


def tensors(arrays, binary):
    made = []
    for name, values in arrays.items():
        tensor = triton.InferInput(name, list(values.shape), TYPES[name])
        tensor.set_data_from_numpy(values, binary_data=binary)
        made.append(tensor)
    return made


def texts(records):
    return np.array([json.dumps(record).encode() for record in records], dtype=np.object_)


@unittest.skipIf(ABSENT, ABSENT)
class Kserve(Serving):
    @contextlib.contextmanager
    def client(self, *options):
        """Yields a client, and the server's URL."""
        with self.server(*options) as url:
            client = triton.InferenceServerClient(url.removeprefix("http://"), concurrency=8)
            try:
                yield client, url
            finally:
                client.close()

    def model_of_ids(self, tasks="", weights="weights: false"):
        self.write("ids.yaml", IDS.replace("TASKS", tasks).replace("WEIGHTS", weights))
        self.run_program(self.train, "ids.yaml")

    def refused(self, call):
        """The message and the status of a refused request."""
        with self.assertRaises(InferenceServerException) as caught:
            call()
        return caught.exception.message(), int(caught.exception.status())

    def test_the_server_describes_itself_and_the_model(self):
        self.model_of_ids(weights="weights: true")
        with self.client() as (client, _):
            self.assertTrue(client.is_server_live())
            self.assertTrue(client.is_server_ready())
            self.assertTrue(client.is_model_ready("dlrm"))
            self.assertTrue(client.is_model_ready("dlrm", "1"))
            self.assertFalse(client.is_model_ready("other"))
            self.assertFalse(client.is_model_ready("dlrm", "2"))
            self.assertEqual(client.get_server_metadata()["extensions"], ["binary_tensor_data"])
            model = client.get_model_metadata("dlrm")
            self.assertEqual((model["name"], model["versions"]), ("dlrm", ["1"]))
            shapes = {tensor["name"]: (tensor["datatype"], tensor["shape"]) for tensor in model["inputs"]}
            self.assertEqual(shapes, {"dense": ("FP32", [-1, 2]), "lengths": ("UINT32", [-1, 2]), "ids": ("INT64", [-1]),
                                      "weights": ("FP32", [-1])})
            self.assertEqual(model["outputs"], [{"name": "probabilities", "datatype": "FP32", "shape": [-1]}])
            self.assertEqual(self.refused(lambda: client.get_model_metadata("other"))[0], 'no model "other"; there is dlrm')
        with self.client("--model-name", "ctr-2.1_b") as (client, _):
            self.assertEqual(client.get_model_metadata("ctr-2.1_b")["name"], "ctr-2.1_b")

    def test_records_have_the_probabilities_of_predict(self):
        self.trained(SCHEMA, self.write("log.csv", LOG))
        records = [{"age": i, "user": f"u{i}", "tags": ["a1", "é"]} for i in range(20)]
        part = [{"user": record["user"]} for record in records]
        with self.client() as (client, url):
            self.assertEqual(client.get_model_metadata("dlrm")["inputs"],
                             [{"name": "records", "datatype": "BYTES", "shape": [-1]}])
            _, known = self.ask(url + "/predict", {"records": records})
            shared = {"age": 3, "tags": "a0|b4"}
            _, together = self.ask(url + "/predict", {"shared": shared, "records": part})
            for binary in (False, True):
                for shape in ([20], [20, 1]):
                    result = client.infer("dlrm", tensors({"records": texts(records).reshape(shape)}, binary),
                                          request_id="r17")
                    np.testing.assert_array_equal(result.as_numpy("probabilities"), np.float32(known["probabilities"]))
                    answer = result.get_response()
                    self.assertEqual((answer["id"], answer["model_name"], answer["model_version"]), ("r17", "dlrm", "1"))
                given = tensors({"records": texts(part), "shared": texts([shared])}, binary)
                np.testing.assert_array_equal(client.infer("dlrm", given).as_numpy("probabilities"),
                                              np.float32(together["probabilities"]))
                bad = tensors({"records": texts([records[0], {"age": "old"}])}, binary)
                self.assertEqual(self.refused(lambda given=bad: client.infer("dlrm", given)),
                                 ("records[1].age: 'old' is not a number", 400))
                bad = tensors({"records": np.array([b"{}", b"{"], dtype=np.object_)}, binary)
                self.assertEqual(self.refused(lambda given=bad: client.infer("dlrm", given))[0],
                                 "inputs.records[1]: not JSON: error at byte 2")

    def test_ids_have_the_probabilities_of_predict(self):
        self.model_of_ids(weights="weights: true")
        draw = np.random.default_rng(1)
        samples, arrays = self.drawn(draw, 12)
        with self.client() as (client, url):
            _, known = self.ask(url + "/predict", {"samples": samples})
            for binary in (False, True):
                for wanted in (None, [triton.InferRequestedOutput("probabilities", binary_data=not binary)]):
                    result = client.infer("dlrm", tensors(arrays, binary), outputs=wanted)
                    np.testing.assert_array_equal(result.as_numpy("probabilities"), np.float32(known["probabilities"]))
            _, none = self.drawn(draw, 0)
            self.assertEqual(client.infer("dlrm", tensors(none, True)).as_numpy("probabilities").shape, (0,))

    def drawn(self, draw, size):
        """Samples as /predict takes them, and as tensors."""
        lengths = np.stack([draw.integers(0, 2, size), draw.integers(0, 4, size)], axis=1).astype(np.uint32)
        dense = draw.normal(size=(size, 2)).astype(np.float32)
        samples, ids, weights = [], [], []
        for sample in range(size):
            a, b = (draw.integers(0, rows, count).tolist() for rows, count in zip((9, 5), lengths[sample]))
            own = draw.normal(size=len(b)).astype(np.float32).tolist()
            samples.append({"dense": dense[sample].tolist(), "ids": {"a": a, "b": b}, "weights": {"b": own}})
            ids += a + b
            weights += own
        return samples, {"dense": dense, "lengths": lengths, "ids": np.array(ids, np.int64),
                         "weights": np.array(weights, np.float32)}

    def test_each_task_is_an_output(self):
        self.model_of_ids(tasks="tasks: [{name: click}, {name: buy, tower: [1]}],")
        arrays = {"dense": np.zeros((3, 2), np.float32), "lengths": np.ones((3, 2), np.uint32), "ids": np.arange(6) % 5}
        with self.client() as (client, url):
            _, known = self.ask(url + "/predict", {"samples": [
                {"dense": [0, 0], "ids": {"a": [int(a)], "b": [int(b)]}} for a, b in arrays["ids"].reshape(3, 2)]})
            result = client.infer("dlrm", tensors(arrays, True))
            for name in ("click", "buy"):
                np.testing.assert_array_equal(result.as_numpy(name), np.float32(known["probabilities"][name]))
                self.assertTrue(all(tensor["name"] in ("click", "buy") for tensor in result.get_response()["outputs"]))
            alone = client.infer("dlrm", tensors(arrays, True), outputs=[triton.InferRequestedOutput("buy")])
            self.assertEqual([tensor["name"] for tensor in alone.get_response()["outputs"]], ["buy"])
            unknown = [triton.InferRequestedOutput("sell")]
            self.assertEqual(self.refused(lambda: client.infer("dlrm", tensors(arrays, True), outputs=unknown)),
                             ('outputs: no tensor "sell"; there are click, buy', 400))

    def test_wrong_tensors_are_named(self):
        self.model_of_ids()
        good = {"dense": np.zeros((2, 2), np.float32), "lengths": np.ones((2, 2), np.uint32), "ids": np.arange(4)}
        with self.client() as (client, _):
            for change, expected in (
                    ({"ids": np.array([8, 4, 9, 1])}, "samples[1]: ids.a[0]: 9; needs a whole number from 0 to 8"),
                    ({"ids": np.arange(3)}, "inputs.ids.shape: [3]; needs [4]"),
                    ({"dense": np.zeros((2, 3), np.float32)}, "inputs.dense.shape: [2, 3]; needs [2, 2]"),
                    ({"dense": np.full((2, 2), np.nan, np.float32)}, "samples[0]: dense[0]: nan; needs a finite number"),
                    ({"weights": np.zeros(4, np.float32)}, "inputs.weights: the model takes none"),
                    ({"records": texts([{}])}, "the model takes ids: its training data was not written by dlrm-data import")):
                given = tensors({**good, **change}, True)
                self.assertEqual(self.refused(lambda given=given: client.infer("dlrm", given)), (expected, 400))
            other = triton.InferInput("ids", [4], "INT32")
            other.set_data_from_numpy(np.arange(4, dtype=np.int32))
            self.assertEqual(self.refused(lambda: client.infer("dlrm", [other]))[0],
                             'inputs.ids.datatype: "INT32"; needs INT64')
            self.assertEqual(self.refused(lambda: client.infer("dlrm", tensors(good, True), model_version="7")),
                             ('no version "7" of dlrm; there is 1', 404))
            packed = self.refused(lambda: client.infer("dlrm", tensors(good, True), request_compression_algorithm="gzip"))
            self.assertEqual(packed[1], 415)
            self.assertEqual(client.infer("dlrm", tensors(good, True)).as_numpy("probabilities").shape, (2,))

    def test_parallel_requests_get_their_own_answers(self):
        self.model_of_ids(weights="weights: true")
        draw = np.random.default_rng(2)
        requests = [self.drawn(draw, 1 + i % 9) for i in range(40)]
        with self.client() as (client, url):
            known = [np.float32(self.ask(url + "/predict", {"samples": samples})[1]["probabilities"])
                     for samples, _ in requests]

            def load(seed):
                """A client of its own, whose requests are under way together."""
                own = triton.InferenceServerClient(url.removeprefix("http://"), concurrency=6)
                order = np.random.default_rng(seed).permutation(len(requests)).tolist() * 3
                waiting = [(i, own.async_infer("dlrm", tensors(requests[i][1], seed % 2 == 0))) for i in order]
                answers = [(i, request.get_result().as_numpy("probabilities")) for i, request in waiting]
                own.close()
                return answers

            with ThreadPoolExecutor(4) as pool:
                for answers in pool.map(load, range(4)):
                    for i, answer in answers:
                        np.testing.assert_allclose(answer, known[i], rtol=0, atol=1e-6)


if __name__ == "__main__":
    take_programs()
    main()
