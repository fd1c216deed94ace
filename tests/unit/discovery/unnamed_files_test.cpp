#include "exporter/discovery/unnamed_files.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace std::chrono_literals;
using discovery::UnnamedFiles;

namespace {

ebpf::Mapping unnamed_mapping(std::uint32_t tgid, std::uint64_t inode, std::uint64_t bytes = 4096) {
    ebpf::Mapping mapping{};
    mapping.tgid = mapping.tid = tgid;
    mapping.file.inode = inode;
    mapping.state.bytes = bytes;
    return mapping;
}

constexpr UnnamedFiles::Clock::time_point unnamed_start{1h};

// As discovery does.
void add_unnamed(UnnamedFiles &files, std::uint32_t user, const ebpf::Mapping &mapping,
                 UnnamedFiles::Clock::time_point now) {
    if (!files.see(mapping)) {
        files.add(user, mapping, now);
    }
}

// The inodes in the order of their turns, each of which takes so long.
std::vector<std::uint64_t> inodes_in_turn(UnnamedFiles &files, UnnamedFiles::Clock::time_point &now,
                                          UnnamedFiles::Clock::duration each = 1ms,
                                          std::size_t most = 1'000'000) {
    std::vector<std::uint64_t> inodes;
    while (files.has_work() && inodes.size() < most) {
        if (const auto turn = files.begin_turn(now)) {
            inodes.push_back(turn->mapping.file.inode);
            now += each;
            files.end_turn(*turn, now);
        } else {
            now += 1ms;
        }
    }
    return inodes;
}

class NoAttacher : public discovery::Attacher {
public:
    [[nodiscard]] bool wants(std::string_view /*name*/) const override { return false; }
    Result<> attach(const discovery::Library & /*library*/) override { return {}; }
    void detach(const FileId & /*id*/, bool /*is_changed*/) override {}
    void failed(std::string_view /*reason*/) override {}
};

}  // namespace

TEST_CASE("unnamed files: each is examined once, and again if its contents have changed") {
    UnnamedFiles files;
    auto now = unnamed_start;
    add_unnamed(files, 1000, unnamed_mapping(1, 7), now);
    add_unnamed(files, 1000, unnamed_mapping(2, 7), now);
    auto read_again = unnamed_mapping(2, 7);
    read_again.file.address = 0xffff'8880'1234'5678;
    add_unnamed(files, 1000, read_again, now);
    CHECK_FALSE(files.begin_turn(now));  // wanted ones may follow
    CHECK(inodes_in_turn(files, now) == std::vector<std::uint64_t>{7});
    add_unnamed(files, 1000, unnamed_mapping(3, 7), now);
    CHECK_FALSE(files.has_work());
    add_unnamed(files, 1000, unnamed_mapping(3, 7, 8192), now);
    CHECK(inodes_in_turn(files, now) == std::vector<std::uint64_t>{7});
    files.examine_again();
    add_unnamed(files, 1000, unnamed_mapping(3, 7), now);
    CHECK(inodes_in_turn(files, now) == std::vector<std::uint64_t>{7});
}

TEST_CASE("unnamed files: they take a tenth of the time") {
    UnnamedFiles files;
    auto now = unnamed_start + UnnamedFiles::first_delay;
    for (std::uint64_t inode = 1; inode <= 10; inode++) {
        add_unnamed(files, 1000, unnamed_mapping(1, inode), unnamed_start);
    }
    CHECK(inodes_in_turn(files, now, 20ms).size() == 10);
    CHECK(now - unnamed_start - UnnamedFiles::first_delay >= 9 * 200ms + 20ms);
    CHECK(now - unnamed_start - UnnamedFiles::first_delay <= 2100ms);
}

TEST_CASE("unnamed files: a user with many of them does not keep others waiting") {
    UnnamedFiles files;
    auto now = unnamed_start;
    for (std::uint64_t inode = 1; inode <= 20'000; inode++) {
        add_unnamed(files, 666, unnamed_mapping(static_cast<std::uint32_t>(inode), inode), now);
    }
    add_unnamed(files, 1000, unnamed_mapping(100'001, 100'001), now);
    add_unnamed(files, 1000, unnamed_mapping(100'001, 100'002), now);
    const auto first = inodes_in_turn(files, now, 1ms, 4);
    CHECK(std::ranges::count(first, 100'001U) == 1);
    CHECK(std::ranges::count(first, 100'002U) == 1);
    // Those that had no room come with the next scans, up to the user's limit.
    std::size_t all = first.size() + inodes_in_turn(files, now).size();
    CHECK(all < UnnamedFiles::max_waiting + 4);
    for (int scan = 0; scan < 10; scan++) {
        for (std::uint64_t inode = 1; inode <= 20'000; inode++) {
            add_unnamed(files, 666, unnamed_mapping(static_cast<std::uint32_t>(inode), inode), now);
        }
        all += inodes_in_turn(files, now).size();
        files.end_scan();
    }
    CHECK(all == UnnamedFiles::max_of_user + 2);
}

TEST_CASE("unnamed files: what no process maps any more is forgotten") {
    UnnamedFiles files;
    auto now = unnamed_start;
    add_unnamed(files, 1000, unnamed_mapping(1, 7), now);
    CHECK(inodes_in_turn(files, now).size() == 1);
    files.end_scan();
    files.end_scan();
    add_unnamed(files, 1000, unnamed_mapping(1, 7), now);
    CHECK_FALSE(files.has_work());
    files.end_scan();
    files.end_scan();
    files.end_scan();
    add_unnamed(files, 1000, unnamed_mapping(1, 7), now);
    CHECK(inodes_in_turn(files, now).size() == 1);
}

TEST_CASE("unnamed files: the log names each once, and few of one user") {
    UnnamedFiles files;
    const auto named = [&](std::uint32_t user, std::uint64_t inode) {
        return files.may_name({{user, 1}, unnamed_mapping(1, inode), unnamed_start});
    };
    std::size_t lines = 0;
    for (std::uint64_t inode = 1; inode <= 100; inode++) {
        lines += named(666, inode) ? 1 : 0;
        CHECK_FALSE(named(666, inode));
    }
    CHECK(lines == UnnamedFiles::max_named);
    CHECK(named(1000, 1));
    files.examine_again();
    CHECK_FALSE(named(1000, 1));
}

TEST_CASE("unnamed files: processes that use wanted files are read again when they map others") {
    UnnamedFiles files;
    files.has_mapped(1);
    CHECK(files.take_changed(unnamed_start).empty());
    files.follow(1);
    files.has_mapped(1);
    files.has_mapped(2);
    CHECK(files.take_changed(unnamed_start) == std::set<std::uint32_t>{1});
    files.has_mapped(1);
    CHECK(files.take_changed(unnamed_start + 999ms).empty());
    CHECK(files.take_changed(unnamed_start + 1s) == std::set<std::uint32_t>{1});
    files.begin_scan();
    files.has_mapped(1);
    CHECK(files.take_changed(unnamed_start + 9s).empty());
}

TEST_CASE("unnamed files: a file that is wanted for its contents stays so until it is forgotten") {
    UnnamedFiles files;
    NoAttacher one;
    NoAttacher other;
    files.want(one, {.inode = 7});
    CHECK(files.is_wanted(one, {.inode = 7}));
    CHECK_FALSE(files.is_wanted(other, {.inode = 7}));
    CHECK_FALSE(files.is_wanted(one, {.inode = 8}));
    files.examine_again();
    CHECK(files.is_wanted(one, {.inode = 7}));
    files.forget_wanted(one, {.inode = 7});
    CHECK_FALSE(files.is_wanted(one, {.inode = 7}));
}
