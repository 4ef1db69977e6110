// Everything that a process of Dovetail is configured with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dovetail/group.hpp"
#include "dovetail/log.hpp"
#include "dovetail/otlp.hpp"
#include "dovetail/platform.hpp"
#include "dovetail/server.hpp"
#include "transport/kind.hpp"

namespace dovetail::config {

/// Spans for an OpenTelemetry collector.
struct TracingSettings {
  OtlpOptions otlp{.endpoint = ""};  ///< An empty endpoint: no tracing. No headers.
  std::string authorization{};       ///< The value of this header; or empty.
};

struct LogSettings {
  LogLevel level = LogLevel::warn;
};

/// A route of [[publish]].
struct PublishSettings {
  std::string topic{};
  transport::Settings broker{};  ///< Of [transports.NAME], and the keys of its kind.
  PublishOptions options{};
};

/// A source of [[consume]].
struct ConsumeSettings {
  transport::Settings broker{};
  ConsumeOptions options{};
};

struct TransportSettings {
  std::vector<PublishSettings> publish{};
  std::vector<ConsumeSettings> consume{};

  [[nodiscard]] bool empty() const { return publish.empty() && consume.empty(); }
};

/// The defaults are those of the option structs.
struct Settings {
  std::string url{};         ///< Of one database; empty with a group, or if none is named.
  std::string group_file{};  ///< The TOML file with the section [databases]; or empty.
  std::string selection = "round_robin";
  PlatformOptions platform{};
  GroupOptions group{};  ///< Without `database` and `selection`: see group_options().
  DiscoverOptions discover{};
  LogSettings log{};
  TracingSettings tracing{};
  ServerOptions server{};
  TransportSettings transports{};  ///< Only in the file.

  /// `group` with `platform` as the options of each database.
  [[nodiscard]] GroupOptions group_options() const;
};

}  // namespace dovetail::config
