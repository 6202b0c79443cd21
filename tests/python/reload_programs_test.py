"""A server that takes newer checkpoints whose preprocessing is another. Usage: reload_programs_test.py DLRM_DATA DLRM_TRAIN
DLRM_INFER"""
import os
import threading
import time
import urllib.request

from import_fixture import main
from serving_fixture import Serving, take_programs

SCHEMA = "label: click\ndense: [age]\nsparse: [user, {column: page, hash: 50}]\n"
RECORDS = {"records": [{"age": 3, "user": "ann", "page": "x"}, {"age": 3, "user": "eve", "page": "x"}]}
CLIENTS = 4


def log(*users):
    return "click,age,user,page\n" + "".join(f"{i % 2},{i},{user},{i}\n" for i, user in enumerate(users * 4))


class Reloading(Serving):
    def version(self, steps, users, *options):
        """A checkpoint in a folder of its own, and its answer to RECORDS."""
        self.trained(SCHEMA, self.write("log.csv", log(*users)), *options, steps=steps, checkpoints=f"of_{steps}")
        name = f"of_{steps}/step_{steps:09}"
        with self.server(checkpoint=name) as url:
            status, answer = self.ask(url + "/predict?explain=ids", RECORDS)
        self.assertEqual(status, 200, answer)
        return name, answer

    def appear(self, name):
        os.makedirs(self.path("ckpt"), exist_ok=True)
        os.rename(self.path(name), self.path("ckpt/" + os.path.basename(name)))

    def wait_for(self, url, line):
        for _ in range(3000):
            with urllib.request.urlopen(url + "/metrics") as page:
                if f"\ndlrm_infer_{line}\n" in page.read().decode():
                    return
            time.sleep(0.02)
        self.fail(f"no line {line}")

    def assert_same(self, answer, known):
        self.assertEqual(answer["samples"], known["samples"])
        for got, expected in zip(answer["probabilities"], known["probabilities"], strict=True):
            self.assertAlmostEqual(got, expected, delta=1e-6)

    def test_dictionaries_that_grew_are_taken_and_no_request_is_lost(self):
        words = ("--dictionary", "words.json")
        first, old = self.version(1, ["ann", "bob"], *words)
        second, new = self.version(2, ["cid", "eve", "ann"], *words)
        self.assertNotEqual(old["samples"], new["samples"])
        for a, b in zip(old["probabilities"], new["probabilities"]):
            self.assertGreater(abs(a - b), 1e-4)
        self.appear(first)
        answers = [[] for _ in range(CLIENTS)]
        stop = threading.Event()

        def client(own):
            while not stop.is_set():
                own.append(self.ask(url + "/predict?explain=ids", RECORDS))

        # Requests wait for each other, so that some wait when the model is replaced.
        with self.server("--reload-interval", "0.05", "--batch-wait", "3000") as url:
            threads = [threading.Thread(target=client, args=(own,)) for own in answers]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            self.appear(second)
            self.wait_for(url, "reloads_total 1")
            time.sleep(0.3)
            stop.set()
            for thread in threads:
                thread.join()
        for own in answers:
            self.assertEqual({status for status, _ in own}, {200})
            models = [answer["samples"] == new["samples"] for _, answer in own]
            self.assertEqual(models, sorted(models))
            self.assertEqual((models[0], models[-1]), (False, True))
            for is_new, (_, answer) in zip(models, own):
                self.assert_same(answer, new if is_new else old)

    def test_another_preprocessing_is_refused_and_the_model_goes_on(self):
        first, known = self.version(1, ["ann", "bob"])
        others = [self.version(2, ["bob", "ann", "eve"])[0], self.version(3, ["ann", "cid", "bob"])[0],
                  self.version(4, ["ann"])[0]]
        grown, later = self.version(5, ["ann", "bob", "eve"])
        self.appear(first)
        with self.server("--reload-interval", "0.05") as url:
            for count, other in enumerate(others, 1):
                self.appear(other)
                self.wait_for(url, f"failed_reloads_total {count}")
                self.assert_same(self.ask(url + "/predict?explain=ids", RECORDS)[1], known)
            self.appear(grown)
            self.wait_for(url, "reloads_total 1")
            self.assert_same(self.ask(url + "/predict?explain=ids", RECORDS)[1], later)


if __name__ == "__main__":
    take_programs()
    main()
