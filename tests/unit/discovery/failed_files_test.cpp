#include "exporter/discovery/failed_files.h"

#include <catch2/catch_test_macros.hpp>

using gpusnoop::discovery::FailedFiles;
using Next = FailedFiles::Next;

TEST_CASE(
    "failed files: a process with some waits for the next look, and with many for the rescan") {
    FailedFiles failed;
    CHECK(failed.next(1) == Next::now);
    CHECK_FALSE(failed.has(1));
    int tried = 0;
    for (int look = 0; look < 100; look++) {
        failed.begin_look();
        while (failed.next(1) == Next::now) {
            failed.note(1);
            tried++;
        }
        CHECK(failed.next(2) == Next::now);
    }
    CHECK(tried == FailedFiles::max_between_rescans);
    CHECK(failed.next(1) == Next::next_rescan);
    failed.begin_rescan();
    CHECK(failed.next(1) == Next::now);
    for (int i = 0; i < FailedFiles::max_in_look; i++) {
        failed.note(1);
    }
    CHECK(failed.has(1));
    CHECK(failed.next(1) == Next::next_look);
}
