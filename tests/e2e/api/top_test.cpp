// `gpusnoop_exporter top` as a person meets it: in a terminal, in a pipe, and with an exporter that
// is not there.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/cli/top/text.h"
#include "tests/e2e/api/terminal.h"
#include "tests/e2e/certificates.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// An exporter that has counted a mix of calls, of a process that runs.
struct Counted {
    Exporter exporter{calls_config({})};
    std::optional<Process> holder;
    CallsTruth truth;

    Counted() {
        holder.emplace(std::vector<std::string>{standin("calls"), "--iterations", "50", "--name",
                                                "counted", "--hold", "--wait-for-file",
                                                (directory / "go").string()});
        exporter.wait_until_attached_to(standin("libcalls.so.1"));
        write_file(directory / "go", "");
        holder->wait_for_output("holding");
        truth = parse_calls(holder->output());
        (void)exporter.wait_for("gpusnoop_function_calls_total", {{"comm", "counted"}},
                                counted_calls(truth));
    }

    TemporaryDirectory directory;
};

std::vector<std::string> top(const std::string &address, std::vector<std::string> more) {
    more.emplace_back("--by=function");
    return top_programs(address, std::move(more));
}

}  // namespace

TEST_CASE("top draws in a terminal, follows its size, and gives it back", "[e2e]") {
    require_bpf();
    const Counted counted;
    const std::string end = GENERATE("q", "\x03", "SIGTERM", "SIGHUP");
    CAPTURE(end);
    InTerminal terminal(top(address_of(counted.exporter), {"--interval=100ms"}), 60, 140);
    terminal.wait_for(enter);
    terminal.wait_for("calls/s    err/s   slow/s");
    const std::size_t drawn = terminal.output().size();
    terminal.wait_for("\033[H", drawn);
    terminal.wait_for("\033[H", terminal.output().rfind("\033[H") + 1);
    CHECK((terminal.settings().c_lflag & (ICANON | ECHO)) == 0);
    const auto screen = terminal.screen();
    REQUIRE(screen.size() > 3);
    CHECK(screen[0].starts_with("gpusnoop_exporter "));
    CHECK(screen[0].find(" at " + address_of(counted.exporter) + ", up ") != std::string::npos);
    CHECK(screen[0].find(", 1 process, ") != std::string::npos);
    for (const auto &[name, count] : counted.truth) {
        CAPTURE(name);
        const bool is_there = std::ranges::any_of(screen, [&](const std::string &line) {
            return line.ends_with("  libcalls.so.1  " + name);
        });
        CHECK((is_there || count.returned == 0));
    }

    terminal.resize(8, 50);
    eventually("a smaller screen", [&] {
        const auto lines = terminal.screen();
        return lines.size() <= 8 && std::ranges::all_of(lines, [](const std::string &line) {
                   return gpusnoop::top::width_of(line) <= 50;
               });
    });
    CHECK(terminal.screen().size() > 3);

    if (end.starts_with("SIG")) {
        terminal.signal(end == "SIGTERM" ? SIGTERM : SIGHUP);
    } else {
        terminal.type(end);
    }
    CHECK(terminal.wait() == 0);
    CHECK(terminal.output().ends_with(leave));
    CHECK(same(terminal.settings(), terminal.settings_before()));
}

TEST_CASE("top shows its keys in 80 columns, and explains the columns of each view", "[e2e]") {
    require_bpf();
    const Counted counted;
    InTerminal terminal(top_programs(address_of(counted.exporter), {"--interval=100ms"}), 24, 80);
    terminal.wait_for("q quit  p programs  f functions  ? help");
    terminal.wait_for("program ");
    CHECK(std::ranges::all_of(terminal.screen(), [](const std::string &line) {
        return gpusnoop::top::width_of(line) <= 80;
    }));
    terminal.type("?");
    terminal.wait_for("held        GPU memory that its processes hold");
    const std::size_t explained = terminal.output().size();
    terminal.type("?");
    terminal.wait_for("launches/s  wait", explained);
    terminal.type("f");
    terminal.wait_for("calls/s    err/s   slow/s");
    terminal.type("?");
    terminal.wait_for("mean, p50, p99  time inside the calls");
    terminal.type("q");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.output().ends_with(leave));
}

TEST_CASE("top in a terminal waits for an exporter that goes away and comes back", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    write_file(directory / "config.yaml", only_groups("auto"));
    std::uint16_t port = 0;
    const auto start = [&] {
        Process exporter({exporter_binary(),
                          "--config.file=" + (directory / "config.yaml").string(),
                          "--web.listen-address=127.0.0.1:" + std::to_string(port)});
        exporter.wait_for_output("msg=\"listening\"");
        const std::string text = exporter.output();
        port = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(" port=") + 6)));
        return exporter;
    };
    std::optional<Process> exporter(start());
    const std::string address = "http://127.0.0.1:" + std::to_string(port);
    InTerminal terminal(top(address, {"--interval=100ms"}), 24, 100);
    terminal.wait_for("calls/s    err/s   slow/s");
    exporter.reset();
    terminal.wait_for("cannot reach " + address + ": Connection refused; trying again");
    const std::size_t gone = terminal.output().size();
    exporter.emplace(start());
    terminal.wait_for(address + " was restarted: its counters begin at 0", gone);
    terminal.wait_for("calls/s    err/s   slow/s", gone);
    terminal.type("q");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.output().ends_with(leave));
}

TEST_CASE("top in a terminal without an exporter says so, and ends with q", "[e2e]") {
    std::uint16_t closed = 0;
    {
        const gpusnoop::Fd nobody(::socket(AF_INET, SOCK_STREAM, 0));
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof any;
        REQUIRE(::bind(nobody.get(), reinterpret_cast<sockaddr *>(&any), size) == 0);
        REQUIRE(::getsockname(nobody.get(), reinterpret_cast<sockaddr *>(&any), &size) == 0);
        closed = ntohs(any.sin_port);
    }
    const std::string address = "http://127.0.0.1:" + std::to_string(closed);
    const std::string sentence = "cannot reach " + address + ": Connection refused";
    InTerminal terminal(top(address, {"--interval=100ms"}), 24, 100);
    terminal.wait_for(sentence + "; trying again");
    terminal.type("q");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.output().ends_with(leave));
    for (const std::string mode : {"--once", "--batch"}) {
        const Finished plain = run(top(address, {mode, "--interval=100ms"}));
        CHECK(plain.code == 1);
        CHECK(plain.output == sentence + "\n");
    }
}

TEST_CASE("top in a pipe writes plain tables", "[e2e][core]") {
    require_bpf();
    const Counted counted;
    const Finished once =
        run(top(address_of(counted.exporter), {"--once", "--interval=100ms", "--rows=100"}));
    CHECK(once.code == 0);
    CHECK(once.output.find('\033') == std::string::npos);
    CHECK(once.output.find("gpusnoop_exporter ") == 0);
    for (const auto &[name, count] : counted.truth) {
        CAPTURE(name);
        CHECK((once.output.find("  libcalls.so.1  " + name + "\n") != std::string::npos ||
               count.returned == 0));
    }
    const Finished few =
        run(top(address_of(counted.exporter), {"--once", "--interval=100ms", "--rows=2"}));
    CHECK(std::ranges::count(few.output, '\n') == 4);

    // Without --once it goes on; calls that are made meanwhile are shown.
    Process batch(top(address_of(counted.exporter), {"--interval=100ms", "--sort=errors"}));
    batch.wait_for_output("calls/s    err/s");
    const Finished calls = run({standin("calls"), "--iterations", "2000", "--threads", "2"});
    CHECK(calls.code == 0);
    eventually("a table with errors", [&] {
        std::istringstream lines(batch.output());
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string calls_per_second;
            std::string errors_per_second;
            if (line.ends_with("  calls_status") &&
                words >> calls_per_second >> errors_per_second && errors_per_second != "0") {
                return calls_per_second != "0";
            }
        }
        return false;
    });
    batch.signal(SIGINT);
    CHECK(batch.wait() == 0);
}

TEST_CASE("top says what is wrong with its exporter or its command line", "[e2e]") {
    require_bpf();
    const Exporter without("cuda: {enabled: false}\n");
    const Finished off = run(top(address_of(without), {"--once"}));
    CHECK(off.code == 1);
    CHECK(off.output ==
          address_of(without) + " answered 503: The probe of this page is not up: / says why.\n");
    for (const std::string wrong :
         {"--interval=1ms", "--interval=x", "--sort=name", "--rows=0", "--address=ftp://x",
          "--address=:1", "--key-file=x", "--lines=3", "--by=thread"}) {
        CAPTURE(wrong);
        const Finished refused = run({exporter_binary(), "top", wrong, "--once"});
        CHECK(refused.code == 2);
        CHECK(refused.output.starts_with("gpusnoop_exporter: "));
    }
}

TEST_CASE("top asks over TLS with a login and a certificate", "[e2e]") {
    require_bpf();
    const Certificates files;
    files.make_authority("ca");
    files.make_authority("other-ca");
    files.make("server", "ca");
    files.make("client", "ca");
    write_file(files.path("web.yaml"),
               "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
               "  client_ca_file: ca.pem\n  client_auth_type: VerifyClientCertIfGiven\n"
               "basic_auth_users:\n  alice: " +
                   hash + "\n");
    write_file(files.path("login"), harness::user_and_password + "\n");
    write_file(files.path("wrong"), "alice:wrong\n");
    write_file(files.path(".netrc"), "machine 127.0.0.1 login alice password \"correct horse\"\n");
    const Exporter exporter(only_groups("auto"),
                            {"env", "GPUSNOOP_WEB_CONFIG_FILE=" + files.path("web.yaml")});
    const std::string secure = "https://127.0.0.1:" + std::to_string(exporter.port());
    const std::string ca = "--ca-file=" + files.path("ca.pem");
    const std::string with_login = "--login-file=" + files.path("login");
    const auto ask = [&](std::vector<std::string> more, const std::string &address = {}) {
        more.insert(more.end(), {"--once", "--interval=100ms"});
        return run(top(address.empty() ? secure : address, std::move(more)));
    };
    const auto refused = [&](std::vector<std::string> more, const std::string &address = {}) {
        const Finished finished = ask(std::move(more), address);
        CHECK(finished.code == 1);
        return finished.output;
    };
    const auto draws = [&](std::vector<std::string> more) {
        const Finished finished = ask(std::move(more));
        CAPTURE(finished.output);
        return finished.code == 0 &&
               finished.output.find(" at " + secure + ", up ") != std::string::npos;
    };
    CHECK(draws({ca, with_login}));
    CHECK(draws({ca, with_login, "--cert-file=" + files.path("client.pem"),
                 "--key-file=" + files.path("client.key")}));
    CHECK(draws({"--insecure-skip-verify", with_login}));
    const Finished netrc =
        run({"env", "HOME=" + files.path(""), exporter_binary(), "top", "--address=" + secure, ca,
             "--netrc", "--once", "--interval=100ms"});
    CHECK(netrc.code == 0);

    const std::string no_login = secure + " needs a valid login: --login-file or --netrc\n";
    CHECK(refused({ca}) == no_login);
    CHECK(refused({ca, "--login-file=" + files.path("wrong")}) == no_login);
    for (const std::string &authorities :
         {std::string(), "--ca-file=" + files.path("other-ca.pem")}) {
        std::vector<std::string> more = {with_login};
        if (!authorities.empty()) {
            more.push_back(authorities);
        }
        const std::string output = refused(std::move(more));
        CHECK(output.starts_with("cannot reach " + secure + ": SSL certificate problem: "));
        CHECK(output.ends_with(" (--ca-file names the authorities to trust)\n"));
    }
    CHECK(refused({ca, with_login, "--cert-file=" + files.path("none.pem")})
              .starts_with("cannot reach " + secure + ": "));
    const std::string plain = "http" + secure.substr(5);
    CHECK(refused({with_login}, plain) ==
          "cannot reach " + plain + ": there was no HTTP answer (is it https?)\n");
}
