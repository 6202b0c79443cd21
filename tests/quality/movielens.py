"""MovieLens-100k as ids: the copy of the PyPI package recbole, of which only files are read."""
import csv
import importlib.util
import os

import numpy as np

SINGLE = ("user", "item", "age", "gender", "occupation", "region", "year")  # features of one id a sample
GENRES = "genres"                                                           # a bag of 1 to 6 ids


def read(name):
    package = importlib.util.find_spec("recbole")
    if package is None:
        raise SystemExit("the package recbole is not installed: pip install --no-deps recbole==1.2.1")
    path = os.path.join(package.submodule_search_locations[0], "dataset_example", "ml-100k", f"ml-100k.{name}")
    with open(path, encoding="utf-8") as file:
        return [{key.split(":")[0]: value for key, value in row.items()}
                for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def numbered(values):
    """Ids from 1, and the rows of their table; 0 pads bags."""
    distinct, ids = np.unique(np.asarray(values), return_inverse=True)
    return ids.astype(np.int64) + 1, len(distinct) + 1


class MovieLens:
    """`ids` [N, features], `genres` [N, 6] padded with 0, `labels` [N], and `rows` of each table."""

    def __init__(self):
        ratings = read("inter")
        users = {row["user_id"]: row for row in read("user")}
        items = {row["item_id"]: row for row in read("item")}
        of_user = [users[row["user_id"]] for row in ratings]
        of_item = [items[row["item_id"]] for row in ratings]
        columns = {"user": [row["user_id"] for row in ratings], "item": [row["item_id"] for row in ratings],
                   "age": [row["age"] for row in of_user], "gender": [row["gender"] for row in of_user],
                   "occupation": [row["occupation"] for row in of_user],
                   "region": [row["zip_code"][:1] for row in of_user],
                   "year": [row["release_year"] for row in of_item]}
        encoded = {name: numbered(columns[name]) for name in SINGLE}
        self.rows = {name: rows for name, (_, rows) in encoded.items()}
        self.ids = np.stack([encoded[name][0] for name in SINGLE], 1)
        bags = [row["class"].split() for row in of_item]
        known = {genre: 1 + i for i, genre in enumerate(sorted({genre for bag in bags for genre in bag}))}
        self.rows[GENRES] = len(known) + 1
        self.genres = np.zeros((len(bags), max(map(len, bags))), np.int64)
        for sample, bag in enumerate(bags):
            self.genres[sample, :len(bag)] = [known[genre] for genre in bag]
        self.labels = np.array([float(row["rating"]) >= 4 for row in ratings])

    def split(self, seed):
        """Indices of 80 % to train, 10 % to choose weights and 10 % to test."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        tenth = len(order) // 10
        return {"train": order[2 * tenth:], "valid": order[:tenth], "test": order[tenth:2 * tenth]}
