// Certificates for tests, made by the program openssl.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "dovetail/server.hpp"
#include "support/process.hpp"

namespace dovetail::testing {

struct CertificateOptions {
  int days = 30;
  std::string passphrase{};  ///< Empty: the key is not encrypted.
};

/// NAME.pem and NAME.key in the folder, for localhost.
inline ServerTls make_certificate(const std::filesystem::path& folder, const std::string& name,
                                  const CertificateOptions& options = {}) {
  const ServerTls files{.certificate_file = (folder / (name + ".pem")).string(),
                        .key_file = (folder / (name + ".key")).string()};
  std::vector<std::string> words{"openssl",
                                 "req",
                                 "-x509",
                                 "-newkey",
                                 "ec",
                                 "-pkeyopt",
                                 "ec_paramgen_curve:prime256v1",
                                 "-keyout",
                                 files.key_file,
                                 "-out",
                                 files.certificate_file,
                                 "-days",
                                 std::to_string(options.days),
                                 "-subj",
                                 "/CN=localhost",
                                 "-addext",
                                 "subjectAltName=DNS:localhost"};
  if (options.passphrase.empty()) {
    words.emplace_back("-nodes");
  } else {
    words.insert(words.end(), {"-passout", "pass:" + options.passphrase});
  }
  const auto result = run_command(words);
  if (result.code != 0) throw std::runtime_error("openssl failed: " + result.err);
  return files;
}

}  // namespace dovetail::testing
