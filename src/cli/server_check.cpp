#include "cli/server_check.hpp"

#ifdef DOVETAIL_WITH_SERVER
#include "dovetail/server_check.hpp"
#endif

namespace dovetail::cli {

config::Findings check_server([[maybe_unused]] const config::Settings& settings) {
  config::Findings findings;
#ifdef DOVETAIL_WITH_SERVER
  auto found = dovetail::check_server(settings.server);
  for (auto& [setting, text] : found.problems)
    findings.problems.push_back({std::move(setting), std::move(text)});
  findings.warnings = std::move(found.warnings);
#endif
  return findings;
}

}  // namespace dovetail::cli
