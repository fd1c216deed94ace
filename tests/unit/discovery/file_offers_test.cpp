#include "exporter/discovery/file_offers.h"

#include <fcntl.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/system/foreign_reader.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using discovery::FileOffers;
using State = FileOffers::State;

namespace {

constexpr FileOffers::Clock::time_point offers_start{1h};

FileOffers::Key offers_key(std::uint64_t inode) {
    FileId id;
    id.inode = inode;
    return {nullptr, id};
}

ebpf::Mapping offers_mapping(std::uint64_t inode, std::uint32_t tgid, std::uint64_t bytes = 4096) {
    ebpf::Mapping mapping{};
    mapping.tgid = mapping.tid = tgid;
    mapping.file.inode = inode;
    mapping.state.bytes = bytes;
    return mapping;
}

// One file, as discovery handles it.
class OneFile {
public:
    explicit OneFile(FileOffers &offers, std::uint64_t inode = 1)
        : offers_(offers), inode_(inode), key_(offers_key(inode)) {}

    [[nodiscard]] const FileOffers::Key &key() const { return key_; }
    [[nodiscard]] FileOffers::File &file() const { return offers_.at(key_); }
    [[nodiscard]] State state() const { return file().state; }
    [[nodiscard]] ebpf::Mapping by(std::uint32_t tgid) const {
        return offers_mapping(inode_, tgid);
    }

    // A process maps it. Whether it is to be opened.
    [[nodiscard]] bool map(std::uint32_t tgid,
                           FileOffers::Clock::time_point now = offers_start) const {
        offers_.use(key_, now);
        return offers_.may_begin(key_, by(tgid), now);
    }
    void open(std::uint32_t tgid, std::uint32_t user = 1000) const {
        offers_.begin(
            key_,
            std::make_unique<FileOffers::Opening>(by(tgid), "/path", ForeignReader::Part::symbols),
            user);
    }
    void finish_opening() const { CHECK(offers_.end_opening(key_) != nullptr); }
    void attach(std::uint32_t tgid) const {
        offers_.attach(key_, {.file = {}, .path = "/path", .state = {}, .by = by(tgid)},
                       by(tgid).state);
    }
    void map_and_attach(std::uint32_t tgid, std::uint32_t user = 1000,
                        FileOffers::Clock::time_point now = offers_start) const {
        REQUIRE(map(tgid, now));
        open(tgid, user);
        finish_opening();
        attach(tgid);
    }

private:
    FileOffers &offers_;
    std::uint64_t inode_;
    FileOffers::Key key_;
};

// The process by whose mapping it is opened next.
std::optional<std::uint32_t> offers_next(FileOffers &offers, const FileOffers::Key &key,
                                         FileOffers::Clock::time_point now = offers_start) {
    const auto next = offers.take_next(key, now);
    return next ? std::optional(next->tgid) : std::nullopt;
}

}  // namespace

TEST_CASE("file offers: a file is opened once and attached to once, however many map it") {
    FileOffers offers;
    const OneFile file(offers);
    CHECK(offers.files().empty());
    CHECK(file.map(1));
    CHECK(file.state() == State::wanted);
    CHECK(offers.busy().empty());
    file.open(1);
    CHECK(file.state() == State::opening);
    CHECK(offers.is_opening());
    CHECK(offers.busy().size() == 1);
    CHECK_FALSE(file.map(2));
    file.finish_opening();
    CHECK(file.state() == State::opened);
    CHECK(offers.busy().empty());
    file.attach(1);
    CHECK(file.state() == State::settled);
    CHECK_FALSE(file.map(2));
    CHECK_FALSE(file.map(3));
    CHECK(offers.busy().empty());
    CHECK(offers.take_new() == std::vector{file.key()});
    CHECK(offers.take_new().empty());
}

TEST_CASE("file offers: one whose process has ended is opened by another that has mapped it") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    file.open(1);
    SECTION("meanwhile: at once") {
        CHECK_FALSE(file.map(2));
        file.finish_opening();
        offers.try_again(file.key());
        CHECK(file.state() == State::waiting);
        CHECK(offers_next(offers, file.key()) == 2);
        CHECK(file.state() == State::wanted);
        CHECK(offers.busy().empty());
    }
    SECTION("later: when it does") {
        file.finish_opening();
        offers.try_again(file.key());
        CHECK(file.state() == State::wanted);
        CHECK_FALSE(offers_next(offers, file.key()));
        CHECK(file.map(2));
    }
}

TEST_CASE("file offers: what one process makes fail, another is asked for at once") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    file.open(1);
    const bool is_mapped_meanwhile = GENERATE(false, true);
    if (is_mapped_meanwhile) {
        CHECK_FALSE(file.map(2));
        file.finish_opening();
        offers.refuse(file.key(), 1, offers_start + 15s);
        // The process that made it fail is not in the way of the other one.
        CHECK_FALSE(file.map(1));
        CHECK(offers_next(offers, file.key()) == 2);
    } else {
        CHECK_FALSE(file.map(1));
        file.finish_opening();
        offers.refuse(file.key(), 1, offers_start + 15s);
        CHECK_FALSE(offers_next(offers, file.key()));
        CHECK_FALSE(file.map(1));
        CHECK(file.map(2));
        CHECK_FALSE(file.map(1, offers_start + 14s));
        CHECK(file.map(1, offers_start + 15s));
    }
}

TEST_CASE("file offers: a postponed file keeps every process waiting, for its time") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    offers.postpone(file.key(), file.by(1), offers_start + 20ms);
    CHECK(file.state() == State::waiting);
    CHECK(offers.busy().size() == 1);
    CHECK_FALSE(offers.is_opening());
    CHECK_FALSE(file.map(2));
    CHECK_FALSE(offers_next(offers, file.key(), offers_start + 19ms));
    CHECK(file.state() == State::waiting);
    SECTION("then it is opened by its last mapping") {
        CHECK(offers_next(offers, file.key(), offers_start + 20ms) == 2);
        CHECK(offers.busy().empty());
    }
    SECTION("or by a new one that comes first") {
        CHECK(file.map(3, offers_start + 20ms));
        file.open(3);
        CHECK_FALSE(offers_next(offers, file.key(), offers_start + 20ms));
        file.finish_opening();
        file.attach(3);
        CHECK(offers.busy().empty());  // not once more by the mapping that waited
    }
    SECTION("and not by the one that waited if the new one ends") {
        CHECK(file.map(3, offers_start + 20ms));
        file.open(3);
        file.finish_opening();
        offers.try_again(file.key());
        CHECK(file.state() == State::wanted);
    }
}

TEST_CASE("file offers: a file that awaits its turn is opened in it") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    CHECK_FALSE(offers.awaits_turn());
    offers.await_turn(file.key(), file.by(1));
    CHECK(offers.awaits_turn());
    CHECK(offers.is_opening());
    CHECK_FALSE(file.map(2));  // a process can map it thousands of times
    CHECK(offers_next(offers, file.key()) == 2);
    CHECK_FALSE(offers.awaits_turn());
    CHECK(file.state() == State::wanted);
}

TEST_CASE("file offers: files of users for whom the least was spent come first") {
    FileOffers offers;
    for (std::uint64_t inode = 1; inode <= 6; inode++) {
        const OneFile file(offers, inode);
        REQUIRE(file.map(static_cast<std::uint32_t>(inode % 3)));
        if (inode % 2 == 0) {
            file.open(static_cast<std::uint32_t>(inode % 3));
        } else {
            offers.await_turn(file.key(), file.by(static_cast<std::uint32_t>(inode % 3)));
        }
    }
    int asked = 0;
    const auto keys = offers.in_turn([&](std::uint32_t tgid) {
        asked++;
        return tgid == 0 ? 20ms : tgid == 1 ? 30ms : 10ms;
    });
    std::vector<std::uint64_t> inodes;
    for (const auto &[attacher, id] : keys) {
        inodes.push_back(id.inode);
    }
    CHECK(inodes == std::vector<std::uint64_t>{2, 5, 3, 6, 1, 4});
    CHECK(asked == 3);  // once for each process
}

TEST_CASE("file offers: a file with other contents is opened again") {
    FileOffers offers;
    const OneFile file(offers);
    file.map_and_attach(1);
    CHECK_FALSE(offers.has_changed(file.key(), file.by(1)));
    const auto overwritten = offers_mapping(1, 1, 5000);
    CHECK(offers.has_changed(file.key(), overwritten));
    CHECK(offers.forget_contents(file.key()) == nullptr);
    CHECK_FALSE(file.file().attached.has_value());
    CHECK_FALSE(offers.has_changed(file.key(), overwritten));
    CHECK(file.map(1));
}

TEST_CASE("file offers: what is being opened is given up if its contents change or it is held") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    file.open(1);
    CHECK_FALSE(file.map(2));
    SECTION("changed: it is opened by its next mapping") {
        CHECK(offers.forget_contents(file.key()) != nullptr);
        CHECK(offers_next(offers, file.key()) == 2);
    }
    SECTION("held: by none so far") {
        CHECK(offers.hold(file.key()) != nullptr);
        CHECK(file.state() == State::wanted);
        CHECK_FALSE(offers_next(offers, file.key()));
        CHECK(file.map(2));
    }
    SECTION("forgotten") {
        CHECK(offers.forget(file.key()) != nullptr);
        CHECK(offers.files().empty());
    }
    CHECK(offers.busy().empty());
    CHECK(offers.of_user(1000) == 0);
}

TEST_CASE("file offers: a refused file is not opened again while its contents are the same") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    file.open(1);
    file.finish_opening();
    offers.reject(file.key(), file.by(1).state);
    CHECK_FALSE(file.map(1, offers_start + 1h));
    CHECK_FALSE(file.map(2, offers_start + 1h));
    offers.begin_rescan();
    CHECK_FALSE(file.map(2, offers_start + 2h));
    CHECK(offers.has_changed(file.key(), offers_mapping(1, 1, 5000)));
}

TEST_CASE("file offers: a file that did not answer is opened again after a rescan") {
    FileOffers offers;
    const OneFile file(offers);
    REQUIRE(file.map(1));
    file.open(1);
    file.finish_opening();
    file.file().is_slow = true;
    offers.settle(file.key(), file.by(1).state);
    CHECK(offers.slow() == 1);
    CHECK_FALSE(file.map(2));
    offers.begin_rescan();
    CHECK(file.map(2));
    CHECK(offers.slow() == 1);  // until it answers
}

TEST_CASE("file offers: an attached file that does not answer once more stays attached to") {
    FileOffers offers;
    const OneFile file(offers);
    file.map_and_attach(1);
    offers.offer_again(file.key());
    CHECK(file.map(1));
    file.open(1);
    file.finish_opening();
    file.file().is_slow = true;
    offers.settle(file.key(), file.by(1).state);
    CHECK(file.file().attached.has_value());
    offers.begin_rescan();
    CHECK_FALSE(file.map(1));
}

TEST_CASE("file offers: offered again, a file keeps its probes until the attacher decides") {
    FileOffers offers;
    const OneFile file(offers);
    file.map_and_attach(1);
    offers.at(file.key()).attached->is_lasting = true;
    offers.offer_again(file.key());
    CHECK(file.state() == State::wanted);
    CHECK(file.file().attached.has_value());
    CHECK(offers.has_changed(file.key(), offers_mapping(1, 1, 5000)));
    CHECK(file.map(2));
    file.open(2);
    offers.offer_again(file.key());  // it is offered as it is now configured in any case
    CHECK(file.state() == State::opening);
    file.finish_opening();
    SECTION("attached to") {
        file.attach(2);
        CHECK(file.file().attached->is_lasting);
        CHECK(offers.of_user(1000) == 1);
    }
    SECTION("refused") {
        offers.reject(file.key(), file.by(2).state);
        CHECK_FALSE(file.file().attached.has_value());
        CHECK(offers.of_user(1000) == 0);
    }
    SECTION("neither yet") {
        offers.try_again(file.key());
        CHECK(file.file().attached.has_value());
        CHECK(file.map(2));
    }
}

TEST_CASE("file offers: a file counts for the user of the process that it was first opened by") {
    FileOffers offers;
    const OneFile one(offers, 1);
    const OneFile other(offers, 2);
    CHECK(offers.of_user(1000) == 0);
    REQUIRE(one.map(1));
    one.open(1, 1000);
    CHECK(offers.of_user(1000) == 1);
    one.finish_opening();
    CHECK(offers.of_user(1000) == 0);
    one.attach(1);
    other.map_and_attach(2, 1000);
    CHECK(offers.of_user(1000) == 2);
    // Opened again by another user's process.
    offers.offer_again(one.key());
    one.open(3, 1001);
    one.finish_opening();
    one.attach(3);
    CHECK(offers.of_user(1000) == 2);
    CHECK(offers.of_user(1001) == 0);
    CHECK(offers.hold(one.key()) == nullptr);
    CHECK(offers.of_user(1000) == 1);
    one.map_and_attach(3, 1001);
    CHECK(offers.of_user(1001) == 1);
    CHECK(offers.forget(other.key()) == nullptr);
    CHECK(offers.of_user(1000) == 0);
}

TEST_CASE("file offers: files that no process maps are let go after two rescans") {
    FileOffers offers;
    const OneFile used(offers, 1);
    const OneFile unused(offers, 2);
    const OneFile never(offers, 3);
    used.map_and_attach(1);
    unused.map_and_attach(1);
    REQUIRE(never.map(1));
    for (int rescan = 0; rescan < 2; rescan++) {
        CHECK(offers.unused(offers_start, 10min).empty());
        offers.begin_rescan();
        CHECK_FALSE(used.map(1));
    }
    CHECK(offers.unused(offers_start, 10min) == std::vector{unused.key(), never.key()});
}

TEST_CASE("file offers: of the host's files that no process maps, the ones used last are kept") {
    constexpr std::size_t more = 3;
    const harness::TemporaryDirectory directory;
    FileOffers offers;
    std::vector<OneFile> files;
    for (std::uint64_t inode = 0; inode < FileOffers::max_kept + more; inode++) {
        const auto path = directory / std::to_string(inode);
        std::ofstream(path) << "library";
        files.emplace_back(offers, inode);
        files.back().map_and_attach(1, 1000, offers_start + std::chrono::seconds(inode));
        auto &attached = *files.back().file().attached;
        attached.file = Fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
        attached.is_lasting = true;
    }
    offers.begin_rescan();
    offers.begin_rescan();
    const auto now = offers_start + 5min;
    std::vector<std::uint64_t> oldest;
    for (const auto &[attacher, id] : offers.unused(now, 10min)) {
        oldest.push_back(id.inode);
    }
    std::ranges::sort(oldest);
    CHECK(oldest == std::vector<std::uint64_t>{0, 1, 2});
    // One that no path leads to any more makes room for an older one.
    std::filesystem::remove(directory / "50");
    CHECK(std::ranges::count(offers.unused(now, 10min), files[50].key()) == 1);
    CHECK(std::ranges::count(offers.unused(now, 10min), files[2].key()) == 0);
    CHECK(offers.unused(now, 1min).size() == files.size());
}
