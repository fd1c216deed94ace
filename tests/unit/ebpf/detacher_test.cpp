// What becomes of links that are to be closed. Pipes stand for them here.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/ebpf/attach/detacher.h"

using namespace gpusnoop;
using ebpf::AttachMode;
using ebpf::Detacher;
using ebpf::UprobeSet;

namespace {

constexpr std::chrono::seconds patience{30};

// A set of links, and whether they are open.
struct Links {
    std::vector<Fd> ends;
    UprobeSet set;

    explicit Links(int count) {
        std::vector<Fd> links;
        for (int i = 0; i < count; i++) {
            std::array<int, 2> pipe{};
            REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
            ends.emplace_back(pipe[0]);
            links.emplace_back(pipe[1]);
        }
        set = UprobeSet::adopt(std::move(links), static_cast<std::size_t>(count));
    }

    [[nodiscard]] std::size_t open() const {
        std::size_t count = 0;
        for (const Fd &end : ends) {
            pollfd poll{.fd = end.get(), .events = POLLIN, .revents = 0};
            REQUIRE(::poll(&poll, 1, 0) >= 0);
            count += (poll.revents & POLLHUP) == 0 ? 1 : 0;
        }
        return count;
    }
};

FileId file(std::uint64_t inode) {
    return {.inode = inode};
}

// Keeps the one thread of the mode perf busy until it is let go.
class Busy {
public:
    explicit Busy(Detacher &detacher, FileId id = file(99), bool is_changed = false) {
        detacher.detach({.file = id,
                         .probes = std::move(Links(1).set),
                         .is_changed = is_changed,
                         .done = [state = state_] {
                             state->begun.set_value();
                             state->let_go.wait_for(patience);
                         }});
        REQUIRE(state_->begun.get_future().wait_for(patience) == std::future_status::ready);
    }
    void end() { state_->go.set_value(); }

private:
    // The thread has it, too: it may come out of its wait after the end of the test.
    struct State {
        std::promise<void> begun;
        std::promise<void> go;
        std::shared_future<void> let_go = go.get_future().share();
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <typename Condition>
bool eventually(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!condition() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
}

}  // namespace

TEST_CASE("a detacher closes all links of a set, and then calls back") {
    for (const AttachMode mode : {AttachMode::session, AttachMode::multi, AttachMode::perf}) {
        Links links(5);
        Detacher detacher(mode);
        std::promise<std::size_t> done;
        detacher.detach({.file = file(1), .probes = std::move(links.set), .done = [&] {
                             done.set_value(links.open());
                         }});
        auto open = done.get_future();
        REQUIRE(open.wait_for(patience) == std::future_status::ready);
        CHECK(open.get() == 0);
        CHECK(eventually([&] { return !detacher.must_wait_for(file(1)); }));
    }
}

TEST_CASE("a detacher's end waits until all links are closed") {
    for (const AttachMode mode : {AttachMode::multi, AttachMode::perf}) {
        Links links(200);
        Links more(200);
        {
            Detacher detacher(mode);
            detacher.detach({.file = file(1), .probes = std::move(links.set)});
            detacher.detach({.file = file(2), .probes = std::move(more.set)});
        }
        CHECK(links.open() == 0);
        CHECK(more.open() == 0);
    }
}

TEST_CASE("links that are not closed yet are taken back") {
    Links links(3);
    Detacher detacher(AttachMode::perf);
    Busy busy(detacher);
    detacher.detach({.file = file(1), .probes = std::move(links.set)});
    CHECK_FALSE(detacher.must_wait_for(file(1)));
    const auto kept = detacher.take_back(file(1));
    REQUIRE(kept.has_value());
    CHECK(kept->links().size() == 3);
    CHECK(links.open() == 3);
    CHECK_FALSE(detacher.take_back(file(1)).has_value());
    busy.end();
}

TEST_CASE("a file with other contents is waited for, and nothing of it is taken back") {
    Links links(3);
    Detacher detacher(AttachMode::perf);
    Busy busy(detacher);
    detacher.detach({.file = file(1), .probes = std::move(links.set), .is_changed = true});
    CHECK(detacher.must_wait_for(file(1)));
    CHECK_FALSE(detacher.must_wait_for(file(2)));
    CHECK_FALSE(detacher.take_back(file(1)).has_value());
    busy.end();
    CHECK(eventually([&] { return !detacher.must_wait_for(file(1)); }));
    CHECK(links.open() == 0);
}

TEST_CASE("what calls back when it is detached is waited for only if its file has changed") {
    const bool is_changed = true;
    {
        Detacher detacher(AttachMode::perf);
        Busy busy(detacher, file(1));
        CHECK_FALSE(detacher.must_wait_for(file(1)));
        CHECK_FALSE(detacher.take_back(file(1)).has_value());
        busy.end();
    }
    Detacher detacher(AttachMode::perf);
    Busy busy(detacher, file(1), is_changed);
    CHECK(detacher.must_wait_for(file(1)));
    busy.end();
    CHECK(eventually([&] { return !detacher.must_wait_for(file(1)); }));
}

TEST_CASE("when a file changes, what was to be detached from it before is waited for") {
    Links links(3);
    Detacher detacher(AttachMode::perf);
    Busy busy(detacher);
    detacher.detach({.file = file(1), .probes = std::move(links.set), .done = [] {}});
    detacher.detach({.file = file(2), .probes = std::move(Links(1).set), .done = [] {}});
    CHECK_FALSE(detacher.must_wait_for(file(1)));
    detacher.detach({.file = file(1), .is_changed = true});  // of nothing else
    CHECK(detacher.must_wait_for(file(1)));
    CHECK_FALSE(detacher.must_wait_for(file(2)));
    busy.end();
    CHECK(eventually([&] { return !detacher.must_wait_for(file(1)); }));
    CHECK(links.open() == 0);
}
