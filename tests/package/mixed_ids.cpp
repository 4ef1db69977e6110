#include "dovetail/ids.hpp"

void use(dovetail::MessageId);

bool mix() {
  const auto message = dovetail::MessageId::generate();
  const auto join = dovetail::JoinId::generate();
  use(message);
#ifdef MISTAKE_convert
  use(join);
#endif
#ifdef MISTAKE_compare
  return message == join;
#endif
#ifdef MISTAKE_construct_from_uuid
  use(dovetail::Uuid::v7());
#endif
  return message.uuid() == join.uuid();
}
