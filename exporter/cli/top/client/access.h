// How `top` logs in to an exporter, and how it verifies the exporter.
#pragma once

#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::top {

struct Access {
    std::string login_file = {};  // empty: no login; else a file of "USER:PASSWORD"
    bool netrc = false;           // the login for this host from ~/.netrc
    std::string ca_file = {};     // authorities in PEM; empty: the system's
    std::string cert_file = {};   // the client's, in PEM; empty: no certificate
    std::string key_file = {};    // the key of cert_file; empty: it is in cert_file
    bool skip_verify = false;     // accepts any certificate
};

// The first line of the file, "USER:PASSWORD". Errors name the file and never contain its content.
[[nodiscard]] Result<std::string> read_login(const std::string &file);

}  // namespace gpusnoop::top
