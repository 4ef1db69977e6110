// Opens databases and nodes according to PlatformOptions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dovetail/platform.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

/// Settings of a database in a group, in addition to its PlatformOptions.
struct GroupPlace {
  std::string label{};  ///< Its name in logs. Empty: the address.
  std::shared_ptr<storage::ConnectionBudget> budget{};
  std::shared_ptr<storage::ConnectionBudget::Account> account{};
};

/// Checks the options, and does not connect.
[[nodiscard]] std::unique_ptr<storage::Database> open_database(std::string_view url,
                                                               const PlatformOptions& options,
                                                               GroupPlace place = {});

/// Deploys the schema if the options require it, and verifies it.
void prepare_schema(storage::Database& database, const PlatformOptions& options);

/// Opens a database and prepares its schema.
[[nodiscard]] std::shared_ptr<Node> open_node(std::string_view url, PlatformOptions options);

class Runtime;

struct PlatformAccess {
  /// In a group, the Platform has no handlers and no services of its own.
  [[nodiscard]] static Platform platform_of(std::shared_ptr<Node> node, bool in_group);
  /// The database has left its group: from now on, calls of the Platform throw InvalidOperation.
  static void retire(Platform& platform);
  /// Throws InvalidOperation for a database of a group.
  [[nodiscard]] static Runtime& runtime_of(const Platform& platform);
  /// Takes the node of a Platform that was retired so long ago that no call is under way.
  [[nodiscard]] static std::shared_ptr<Node> take_node(Platform& platform);
};

}  // namespace dovetail::runtime
