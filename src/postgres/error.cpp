#include "postgres/error.hpp"

namespace dovetail::postgres {
namespace {

bool is_connection_failure(std::string_view sqlstate) {
  return sqlstate.empty() || sqlstate.starts_with("08") || sqlstate == "57P01" ||
         sqlstate == "57P02" || sqlstate == "57P03" || sqlstate == "57P04" || sqlstate == "57P05" ||
         sqlstate == "25P03";
}

ErrorKind by_code(std::string_view code) {
  if (code == "40001") return ErrorKind::serialization;
  if (code == "40P01") return ErrorKind::deadlock;
  if (code == "40003") return ErrorKind::commit_in_doubt;
  if (code == "53100") return ErrorKind::disk_full;
  if (code == "25006") return ErrorKind::read_only;
  if (code == "42501") return ErrorKind::permission;
  if (code == "57014") return ErrorKind::cancelled;
  if (code == "55P03") return ErrorKind::lock_timeout;  // lock not available
  if (code == "55006") return ErrorKind::transient;     // object in use
  if (code == "42P01" || code == "42883" || code == "3F000" || code == "42703")
    return ErrorKind::schema;
  if (code == "XX001" || code == "XX002") return ErrorKind::corrupt;
  return ErrorKind::other;
}

ErrorKind by_class(std::string_view code) {
  if (code.starts_with("23")) return ErrorKind::constraint;
  if (code.starts_with("28")) return ErrorKind::permission;
  if (code.starts_with("53")) return ErrorKind::transient;  // out of memory, too many connections
  if (code.starts_with("22") || code.starts_with("54")) return ErrorKind::invalid;
  return ErrorKind::other;
}

}  // namespace

ErrorKind classify(std::string_view sqlstate, bool decides) {
  if (is_connection_failure(sqlstate)) {
    return decides ? ErrorKind::commit_in_doubt : ErrorKind::connection_lost;
  }
  const auto kind = by_code(sqlstate);
  return kind != ErrorKind::other ? kind : by_class(sqlstate);
}

}  // namespace dovetail::postgres
