"""The rules of placement and of ages, one file and one byte bin at a time."""

import math

import numpy as np


def choose_weighted(available, server, prio_free, choices, seed):
    """Choose an OST so many times as Lustre's QOS does; return how often each was."""
    rng = np.random.default_rng(seed)
    osts, servers = len(available), sorted(set(server))
    wide = 1.0 - prio_free
    of_server = {s: [i for i in range(osts) if server[i] == s] for s in servers}
    step = [wide * room / 2 / (osts - 1) for room in available]
    server_step = {}
    for s in servers:
        mean = sum(available[i] for i in of_server[s]) / len(of_server[s])
        server_step[s] = wide * mean / 2 / (len(servers) - 1) if len(servers) > 1 else 0.0
    if len(servers) == 1:
        step = [2 * one for one in step]
    penalty, server_penalty = [0.0] * osts, dict.fromkeys(servers, 0.0)
    chosen = np.zeros(osts)
    for _ in range(choices):
        weight = [
            max(0.0, available[i] - penalty[i] - server_penalty[server[i]]) for i in range(osts)
        ]
        drawn = rng.random() * sum(weight)
        at = 0
        while at < osts - 1 and drawn >= weight[at]:
            drawn -= weight[at]
            at += 1
        chosen[at] += 1
        penalty[at] = penalty[at] / 2 + step[at] * osts
        server_penalty[server[at]] = server_penalty[server[at]] / 2 + server_step[server[at]] * len(
            servers
        )
        penalty = [max(0.0, penalty[i] - step[i]) for i in range(osts)]
        server_penalty = {s: max(0.0, server_penalty[s] - server_step[s]) for s in servers}
    return chosen / choices


class SlowPopulation:
    """A dictionary of (lifetime, day of last use, column) to bytes of the whole."""

    def __init__(self, weight, lifetimes):
        self.weight, self.lifetimes, self.today, self.bytes = weight, lifetimes, 0, {}

    def write(self, written):
        for life in range(len(self.lifetimes)):
            for column, weight in enumerate(self.weight):
                key = (life, self.today, column)
                self.bytes[key] = self.bytes.get(key, 0.0) + written[life][column] * weight

    def delete(self, seconds):
        for key in self.bytes:
            mean = self.lifetimes[key[0]].mean_s
            if mean is not None:
                self.bytes[key] *= math.exp(-seconds / mean)

    def new_day(self, day, rate):
        while self.today < day:
            self.today += 1
            for (life, used, column), held in list(self.bytes.items()):
                again = held * (1 - math.exp(-rate))
                self.bytes[life, used, column] -= again
                key = (life, self.today, column)
                self.bytes[key] = self.bytes.get(key, 0.0) + again

    def purge(self, goal, youngest):
        for day in sorted({key[1] for key in self.bytes}):
            if self.today - day < youngest or goal <= 0:
                continue
            keys = [key for key in self.bytes if key[1] == day]
            there = sum(self.bytes[key] for key in keys)
            part = 0.0 if there <= 0 else 1.0 if goal >= there else goal / there
            for key in keys:
                self.bytes[key] *= 1 - part
            goal -= part * there

    def used(self, column):
        return sum(held for key, held in self.bytes.items() if key[2] == column)
