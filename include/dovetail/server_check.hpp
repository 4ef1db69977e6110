// Checks the options of a Server without a Platform, for example before a deployment.
//
//   for (const auto& problem : dovetail::check_server(options).problems)
//     std::cerr << problem.setting << ": " << problem.text << '\n';
//
// It is part of dovetail::server. `dovetail config check` uses it.
#pragma once

#include <string>
#include <vector>

#include "dovetail/server.hpp"

namespace dovetail {

struct ServerFindings {
  /// An option that the server would refuse.
  struct Problem {
    std::string setting{};  ///< Its name in the configuration: `server.address`.
    std::string text{};     ///< Contains no secrets.
  };
  std::vector<Problem> problems{};
  std::vector<std::string> warnings{};  ///< For example of a certificate that expires soon.
};

/// All that the constructor of Server would refuse, and start() because of the files of TLS. Reads
/// these files; opens no sockets.
[[nodiscard]] ServerFindings check_server(const ServerOptions& options);

}  // namespace dovetail
