"""Operations of people and schedules: skip, retire, bind, move, retention, doctor, explain."""
