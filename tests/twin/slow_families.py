"""The block allocators that keep groups by order, as plainly as the one that walks them all."""

from tests.twin.slow_allocator import ALIGNED, ANY, BEST, FAST, SLOW, SlowAllocator


class SlowOrders(SlowAllocator):
    """What the families with lists share: under which order a group is found."""

    def order_of(self, criterion: str, group: int) -> int | None:
        sizes = [size for _, size in self.buddies(group)]
        if not sizes:
            return None
        if criterion == ALIGNED:
            return max(sizes).bit_length() - 1
        return self.average_order(sum(sizes) // len(self.runs(group)))

    def average_order(self, length: int) -> int:
        top = max(1, self.units // 4).bit_length() - 1
        return min(max(0, length.bit_length() - 2), top)

    def lookups(self, criterion: str) -> list[tuple[int, int]]:
        """Return orders to look up, and the length to look for in each."""
        top = max(1, self.units // 4).bit_length() - 1
        if criterion == ALIGNED:
            return [(order, self.asked) for order in range(self.asked.bit_length() - 1, top + 1)]
        if criterion == FAST:
            return [(order, self.asked) for order in range(self.average_order(self.asked), top + 1)]
        order = self.asked.bit_length() - 1
        least = max(0, order - self.trim)
        if self.stripe > 2**least:
            least = self.stripe.bit_length() - 1
        if self.least > 2**least:
            least = self.least.bit_length()
        cuts = [2**power for power in range(order, least - 1, -1)]
        if self.stripe:
            cuts = [-(-cut // self.stripe) * self.stripe for cut in cuts]
        return [(self.average_order(cut), cut) for cut in cuts]


class SlowLists(SlowOrders):
    """Linux 5.13 to 6.4: a group goes to the end of a list when its order changes."""

    LISTED: tuple[str, ...] = (ALIGNED, FAST)

    def __init__(self, groups: int, units: int, **terms) -> None:
        super().__init__(groups, units, **terms)
        self.where: dict[tuple[str, int], int | None] = {}
        self.lists: dict[tuple[str, int | None], list[int]] = {
            (one, order): [] for one in (ALIGNED, FAST) for order in range(17)
        }
        for group in range(groups):
            self._changed(group)

    def _changed(self, group: int) -> None:
        for criterion in (ALIGNED, FAST):
            order = self.order_of(criterion, group)
            if (before := self.where.get((criterion, group))) == order:
                continue
            if before is not None:
                self.lists[criterion, before].remove(group)
            if order is not None:
                self.lists[criterion, order].append(group)
            self.where[criterion, group] = order

    def _suggest(self, number: int) -> int | None:
        criterion = self.CRITERIA[number]
        kept = ALIGNED if criterion == ALIGNED else FAST
        for order, length in self.lookups(criterion):
            self.length = length
            for group in self.lists[kept, order]:
                self.loops["considered"][number] += 1
                if self._is_good(criterion, group):
                    return group
        self.length = self.asked
        return None

    def _search(self, first: int, begin: int) -> int:
        number = begin
        self.suggested: dict[int, bool] = {}
        while number < len(self.CRITERIA):
            number, served = self._one_criterion(number, first)
            if served:
                return number
        return len(self.CRITERIA) - 1

    def _one_criterion(self, number: int, first: int) -> tuple[int, bool]:
        criterion, group, linear = self.CRITERIA[number], first, self.linear
        for seen in range(1, len(self.groups) + 1):
            self._visit(number, group)
            if self.state != "goes":
                return number, True
            if criterion not in self.LISTED or linear > 0:
                linear -= 1
                group = (group + 1) % len(self.groups)
                continue
            # The group before was a list's too, and gave nothing.
            self.loops["bad_suggestions"][number] += self.suggested.get(number, False)
            following = self._suggest(number)
            self.suggested[number] = self.suggested.get(number, False) or following is not None
            if following is None and seen < len(self.groups):
                skips = self.CRITERIA[number + 1] == BEST and not self.data
                return number + 1 + skips, False
            group = first if following is None else following
        self.length = self.asked
        self.loops["useless"][number] += 1
        return number + 1, False


class SlowEl9(SlowLists):
    """Linux 6.5 to 6.16: a criterion more, and runs that are too short are left out."""

    CRITERIA = (ALIGNED, FAST, BEST, SLOW, ANY)
    LISTED = (ALIGNED, FAST, BEST)
    SKIPS_SHORT_RUNS = True


class SlowOrdered(SlowOrders):
    """Linux from 6.17 on: groups of an order by their numbers, from the first one on and around."""

    CRITERIA = (ALIGNED, FAST, BEST, SLOW, ANY)
    SKIPS_SHORT_RUNS = True

    def _search(self, first: int, begin: int) -> int:
        for number in range(begin, len(self.CRITERIA)):
            criterion = self.CRITERIA[number]
            if criterion == BEST and not self.data:
                continue
            for counted, group, length in self._way(criterion, first):
                self.length = length
                self.loops["considered"][number] += counted - 1
                self._visit(number, group)
                if self.state != "goes":
                    return number
            self.length = self.asked
            self.loops["useless"][number] += 1
        return len(self.CRITERIA) - 1

    def _way(self, criterion: str, first: int) -> list[tuple[int, int, int]]:
        """Return how often a group counts as looked at, which it is, and what is looked for."""
        count = len(self.groups)
        if criterion in (SLOW, ANY):
            return [(1, (first + step) % count, self.asked) for step in range(count)]
        linear = min(self.linear, count)
        way = [(1, (first + step) % count, self.asked) for step in range(linear)]
        start = (first + linear) % count
        for stretch in (range(start, count), range(start)):
            way += [
                (2, group, length)
                for order, length in self.lookups(criterion)
                for group in stretch
                if self.order_of(criterion, group) == order
            ]
        return way


FAMILIES: dict[str, type[SlowAllocator]] = {
    "classic": SlowAllocator,
    "optimize-scan": SlowLists,
    "el9": SlowEl9,
    "ordered": SlowOrdered,
}
