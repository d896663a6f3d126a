"""Pure decisions about where work goes: what fits into the group's record, what load asks for."""
