#compdef starter
# Completion of starter for zsh: source <(starter completion zsh), behind compinit
_starter() {
  local before=${words[CURRENT-1]/#--/-} word command=
  local -a typed
  typed=("${words[@]:1:$((CURRENT-2))}")
  for word in $typed; do
    case " @COMMANDS@ " in *" $word "*) command=$word; break ;; esac
  done
  local kinds
  case $before in
    -on-error) compadd @ONERROR@; return ;;
    -output)
      kinds='@OUTPUTS@'
      case $command in
@OWNZSH@      esac
      compadd -- ${=kinds}; return ;;
    @FILES@) _files; return ;;
    @VALUES@) return ;;
  esac
  local -a offers
  case $command in
    '') offers=(@START@); (( CURRENT == 2 )) && offers=(@FIRST@) ;;
@CASES@  esac
  compadd -- $offers
  if [[ -n $command && ' @FILEARGS@ ' = *" $command "* ]]; then _files; fi
}
compdef _starter starter
