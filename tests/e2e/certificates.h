// Certificates and a login, as operators make them.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "tests/harness/exporter.h"

namespace harness {

// Of the login's password.
inline const std::string hash = "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";
inline const std::string user_and_password = "alice:correct horse";

inline void openssl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "openssl");
    const Finished finished = run(std::move(arguments));
    INFO(finished.output);
    REQUIRE(finished.code == 0);
}

// Authorities, and what they certify.
class Certificates {
public:
    [[nodiscard]] std::string path(const std::string &name) const { return directory_ / name; }

    void make_authority(const std::string &name) const {
        openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", "/CN=" + name, "-keyout", path(name + ".key"), "-out",
                 path(name + ".pem")});
    }
    void make(const std::string &name, const std::string &authority) const {
        openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                 "/CN=" + name, "-keyout", path(name + ".key"), "-out", path(name + ".csr")});
        write_file(path("extensions"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
        openssl({"x509", "-req", "-in", path(name + ".csr"), "-CA", path(authority + ".pem"),
                 "-CAkey", path(authority + ".key"), "-CAcreateserial", "-days", "2", "-extfile",
                 path("extensions"), "-out", path(name + ".pem")});
    }
    // As a tool that keeps certificates does it.
    void put(const std::string &from, const std::string &to) const {
        std::filesystem::copy_file(path(from), path("new"),
                                   std::filesystem::copy_options::overwrite_existing);
        std::filesystem::rename(path("new"), path(to));
    }

private:
    TemporaryDirectory directory_;
};

}  // namespace harness
